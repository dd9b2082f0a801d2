#include "ir/graph.h"

#include "ir/op.h"

namespace rannc::ir {

namespace {
const Attributes& no_attributes() {
  static const Attributes none;
  return none;
}
}  // namespace

std::string_view str(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInput: return "input";
    case ValueKind::kParameter: return "parameter";
    case ValueKind::kBuffer: return "buffer";
    case ValueKind::kConstant: return "constant";
    case ValueKind::kActivation: return "activation";
  }
  return "";
}

uint32_t Graph::intern(std::string_view text) {
  strings_.emplace_back(text);
  const auto [entry, added] = string_ids_.try_emplace(strings_.back(), static_cast<uint32_t>(strings_.size() - 1));
  if (!added) strings_.pop_back();
  return entry->second;
}

std::string_view Graph::unique_name(std::string_view wanted) {
  const auto id = ValueId::from(values_.size());
  const std::string stem = wanted.empty() ? "v" + std::to_string(values_.size()) : std::string(wanted);
  const std::string_view first = strings_[intern(stem)];
  if (value_names_.try_emplace(first, id).second) return first;
  uint32_t& suffix = name_suffixes_[first];
  while (true) {
    const std::string_view candidate = strings_[intern(stem + "." + std::to_string(++suffix))];
    if (value_names_.try_emplace(candidate, id).second) return candidate;
  }
}

ValueId Graph::add_value(ValueKind kind, std::string_view name, ValueType type, TensorData data) {
  const auto id = ValueId::from(values_.size());
  const std::string_view unique = unique_name(name);
  values_.push_back({unique, kind, {}, 0, std::move(type), std::move(data)});
  first_use_.push_back(kNone);
  last_use_.push_back(kNone);
  return id;
}

TaskId Graph::add_task(const OpInfo& op, std::span<const ValueId> inputs, Attributes attributes,
                       std::span<const std::string> output_names, Location location) {
  const auto id = TaskId::from(tasks_.size());
  TaskRecord record{};
  record.op = &op;
  record.first_input = static_cast<uint32_t>(slots_.size());
  record.first_output = static_cast<uint32_t>(output_ids_.size());
  record.input_count = static_cast<uint32_t>(inputs.size());
  record.output_count = static_cast<uint32_t>(output_names.size());
  if (!attributes.empty()) record.attributes = std::make_shared<const Attributes>(std::move(attributes));
  record.file = location.file.empty() ? kNone : intern(location.file);
  record.node = kNone;
  if (!location.node.empty()) {  // seldom repeated: looking for an equal one costs more than it saves
    record.node = static_cast<uint32_t>(strings_.size());
    strings_.push_back(std::move(location.node));
  }
  record.line = location.line;
  record.column = location.column;
  for (const ValueId input : inputs) {
    const auto slot = static_cast<uint32_t>(slots_.size());
    slots_.push_back({input, id.index(), kNone});
    operand_ids_.push_back(input);
    if (!input.valid()) continue;
    RANNC_CHECK(input.index() < values_.size()) << "operand does not exist";
    uint32_t& last = last_use_[input.index()];
    (last == kNone ? first_use_[input.index()] : slots_[last].next) = slot;
    last = slot;
  }
  tasks_.push_back(std::move(record));
  for (const std::string& name : output_names) {
    const ValueId output = add_value(ValueKind::kActivation, name, {});
    values_.back().producer = id;
    values_.back().output_index = static_cast<uint32_t>(output_ids_.size()) - tasks_.back().first_output;
    output_ids_.push_back(output);
  }
  return id;
}

ValueId Graph::add(const OpInfo& op, std::initializer_list<ValueId> inputs, Attributes attributes, std::string name,
                   Location location) {
  const std::string names[] = {std::move(name)};
  const std::vector<ValueId> operands(inputs);
  return outputs(add_task(op, operands, std::move(attributes), names, std::move(location)))[0];
}

void Graph::set_type(ValueId value, ValueType type) { values_[value.index()].type = std::move(type); }
void Graph::set_kind(ValueId value, ValueKind kind) { values_[value.index()].kind = kind; }
void Graph::set_data(ValueId value, TensorData data) { values_[value.index()].data = std::move(data); }
void Graph::set_attributes(TaskId task, Attributes attributes) {
  tasks_[task.index()].attributes =
      attributes.empty() ? nullptr : std::make_shared<const Attributes>(std::move(attributes));
}

Graph::Task Graph::task(TaskId id) const {
  return {&op(id), inputs(id), outputs(id), attributes(id), location(id)};
}

std::span<const ValueId> Graph::inputs(TaskId id) const {
  const TaskRecord& record = tasks_[id.index()];
  return {operand_ids_.data() + record.first_input, record.input_count};
}

std::span<const ValueId> Graph::outputs(TaskId id) const {
  const TaskRecord& record = tasks_[id.index()];
  return {output_ids_.data() + record.first_output, record.output_count};
}

const Attributes& Graph::attributes(TaskId id) const {
  const auto& attributes = tasks_[id.index()].attributes;
  return attributes ? *attributes : no_attributes();
}

Location Graph::location(TaskId id) const {
  const TaskRecord& record = tasks_[id.index()];
  Location location;
  if (record.file != kNone) location.file = strings_[record.file];
  if (record.node != kNone) location.node = strings_[record.node];
  location.line = record.line;
  location.column = record.column;
  return location;
}

std::vector<Graph::Use> Graph::uses(ValueId id) const {
  std::vector<Use> found;
  for_each_use(id, [&](Use use) { found.push_back(use); });
  return found;
}

ValueId Graph::find(std::string_view name) const {
  const auto found = value_names_.find(name);
  return found == value_names_.end() ? ValueId() : found->second;
}

const OpInfo& Graph::foreign_op(std::string_view name) {
  for (const auto& op : foreign_ops_) {
    if (op->name == name) return *op;
  }
  auto op = std::make_shared<OpInfo>();
  op->name = name;
  op->max_inputs = UINT32_MAX;
  op->outputs = 0;
  foreign_ops_.push_back(op);
  return *foreign_ops_.back();
}

Graph Graph::clone() const {
  Graph copy;
  copy.name_ = name_;
  copy.batch_symbol_ = batch_symbol_;
  copy.tasks_ = tasks_;
  copy.values_ = values_;
  copy.slots_ = slots_;
  copy.operand_ids_ = operand_ids_;
  copy.output_ids_ = output_ids_;
  copy.first_use_ = first_use_;
  copy.last_use_ = last_use_;
  copy.inputs_ = inputs_;
  copy.outputs_ = outputs_;
  copy.losses_ = losses_;
  copy.foreign_ops_ = foreign_ops_;
  // Names are views of strings, so those of the copy must point into its own.
  copy.strings_ = strings_;
  copy.string_ids_.reserve(string_ids_.size());
  copy.value_names_.reserve(values_.size());
  for (uint32_t i = 0; i < strings_.size(); ++i) {
    const std::string_view text = copy.strings_[i];
    const auto interned = string_ids_.find(text);
    if (interned == string_ids_.end() || interned->second != i) continue;
    copy.string_ids_.emplace(text, i);
    if (const auto value = value_names_.find(text); value != value_names_.end()) {
      copy.value_names_.emplace(text, value->second);
      copy.values_[value->second.index()].name = text;
    }
    if (const auto suffix = name_suffixes_.find(text); suffix != name_suffixes_.end()) {
      copy.name_suffixes_.emplace(text, suffix->second);
    }
  }
  return copy;
}

bool equal(const Graph& a, const Graph& b) {
  if (a.task_count() != b.task_count() || a.value_count() != b.value_count() || a.name() != b.name() ||
      a.batch_symbol() != b.batch_symbol() || a.inputs() != b.inputs() || a.outputs() != b.outputs() ||
      a.losses() != b.losses()) {
    return false;
  }
  for (const TaskId id : a.tasks()) {
    const auto same = [](std::span<const ValueId> x, std::span<const ValueId> y) {
      return std::equal(x.begin(), x.end(), y.begin(), y.end());
    };
    if (a.op(id).name != b.op(id).name || !same(a.inputs(id), b.inputs(id)) || !same(a.outputs(id), b.outputs(id)) ||
        a.attributes(id) != b.attributes(id) || a.location(id) != b.location(id)) {
      return false;
    }
  }
  for (const ValueId id : a.values()) {
    const Graph::Value& x = a.value(id);
    const Graph::Value& y = b.value(id);
    if (x.name != y.name || x.kind != y.kind || x.producer != y.producer || x.output_index != y.output_index ||
        x.type != y.type || !(x.data == y.data)) {
      return false;
    }
  }
  return true;
}

}  // namespace rannc::ir
