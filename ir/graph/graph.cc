#include "ir/graph/graph.h"

#include "ir/base/printable.h"
#include "ir/graph/assumptions.h"
#include "ir/op/foreign.h"
#include "ir/op/op.h"

namespace rannc::ir {

std::string_view str(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInput:
      return "input";
    case ValueKind::kParameter:
      return "parameter";
    case ValueKind::kBuffer:
      return "buffer";
    case ValueKind::kConstant:
      return "constant";
    case ValueKind::kRandomInput:
      return "random";
    case ValueKind::kActivation:
      return "activation";
  }
  return "";
}

void Graph::set_batch_symbol(std::string name) {
  batch_symbol_ = std::move(name);
  answers_ = {};
}

namespace {
uint32_t hash_of_name(std::string_view name) { return mixed(std::hash<std::string_view>()(name)); }

std::string_view keep_printable(Texts& texts, std::string_view text) {
  return is_printable(text) ? texts.keep(text) : texts.keep(printable(text));
}
}  // namespace

ValueId Graph::find(std::string_view name, uint32_t hash) const {
  const uint32_t found = value_names_.find(hash, [&](uint32_t value) { return values_[value].name == name; });
  return found == HashIndex::kNone ? ValueId() : ValueId(found);
}

ValueId Graph::find(std::string_view name) const {
  if (!is_printable(name)) return find(printable(name));
  return find(name, hash_of_name(name));
}

// Names the next value, with a suffix if the name is taken. `texts_` owns `wanted`.
void Graph::name_value(ValueRecord& value, std::string_view wanted, uint32_t hash) {
  const auto number = static_cast<uint32_t>(values_.size());
  if (find(wanted, hash).valid()) return name_otherwise(value, wanted);
  value.name = wanted;
  value.name_hash = hash;
  value_names_.insert(hash, number);
}

void Graph::name_otherwise(ValueRecord& value, std::string_view taken) {
  uint32_t& suffix = name_suffixes_[taken];
  while (true) {
    const std::string candidate = std::string(taken) + "." + std::to_string(++suffix);
    const uint32_t hash = hash_of_name(candidate);
    if (!find(candidate, hash).valid()) return name_value(value, texts_.keep(candidate), hash);
  }
}

ValueId Graph::push_value(const ValueRecord& value) {
  values_.push_back(value);
  first_use_.push_back(kNone);
  last_use_.push_back(kNone);
  return ValueId::from(values_.size() - 1);
}

TaskId Graph::push_task(TaskRecord task, std::span<const ValueId> inputs) {
  const auto id = TaskId::from(tasks_.size());
  task.first_input = static_cast<uint32_t>(slots_.size());
  task.input_count = static_cast<uint32_t>(inputs.size());
  task.first_output = static_cast<uint32_t>(output_ids_.size());
  for (const ValueId input : inputs) {
    const auto slot = static_cast<uint32_t>(slots_.size());
    slots_.push_back({id.index(), kNone});
    operand_ids_.push_back(input);
    if (!input.valid()) continue;
    RANNC_CHECK(input.index() < values_.size()) << "operand does not exist";
    uint32_t& last = last_use_[input.index()];
    (last == kNone ? first_use_[input.index()] : slots_[last].next) = slot;
    last = slot;
  }
  tasks_.push_back(task);
  return id;
}

ValueId Graph::add_value(ValueKind kind, std::string_view name, ValueType type, TensorData data) {
  ValueRecord value{};
  value.kind = kind;
  value.type = types_.number(assumptions_.empty() ? std::move(type) : normalised(std::move(type), assumptions_));
  value.data = kNone;
  if (data.present()) {
    value.data = static_cast<uint32_t>(data_.size());
    data_.push_back(std::move(data));
  }
  const std::string_view wanted =
      name.empty() ? texts_.keep("v" + std::to_string(values_.size())) : keep_printable(texts_, name);
  name_value(value, wanted, hash_of_name(wanted));
  return push_value(value);
}

ValueId Graph::add_random_input(std::string_view name, ValueType type, const RandomInput& random_input) {
  const ValueId value = add_value(ValueKind::kRandomInput, name, std::move(type));
  random_inputs_.emplace(value, random_input);
  return value;
}

const RandomInput* Graph::random_input(ValueId id) const {
  if (kind(id) != ValueKind::kRandomInput) return nullptr;
  const auto found = random_inputs_.find(id);
  return found == random_inputs_.end() ? nullptr : &found->second;
}

TaskId Graph::add_task(const OpInfo& op, std::span<const ValueId> inputs, Attributes attributes,
                       std::span<const std::string> output_names, const Location& location) {
  TaskRecord record{};
  record.op = &op;
  record.output_count = static_cast<uint32_t>(output_names.size());
  record.attributes = attributes_.number(std::move(attributes));
  // Consecutive tasks usually come from one file.
  const bool same_file = !tasks_.empty() && tasks_.back().file == location.file;
  record.file = same_file ? tasks_.back().file : keep_printable(texts_, location.file);
  record.node = keep_printable(texts_, location.node);
  record.line = location.line;
  record.column = location.column;
  const TaskId id = push_task(record, inputs);
  for (uint32_t i = 0; i < record.output_count; ++i) {
    const ValueId output = add_value(ValueKind::kActivation, output_names[i], {});
    values_.back().producer = id;
    values_.back().output_index = i;
    output_ids_.push_back(output);
  }
  return id;
}

// A graph without tasks and values that shares the tables of this one, so that numbers and texts remain valid in it.
Graph Graph::without_content() const {
  Graph empty;
  empty.name_ = name_;
  empty.batch_symbol_ = batch_symbol_;
  empty.texts_ = texts_;
  empty.types_ = types_;
  empty.attributes_ = attributes_;
  empty.foreign_ops_ = foreign_ops_;
  empty.assumptions_ = assumptions_;
  empty.answers_ = answers_;
  return empty;
}

// Copies from the graph whose `without_content` created this one.
ValueId Graph::copy_value(const Graph& from, ValueId value) {
  ValueRecord record = from.values_[value.index()];
  record.producer = TaskId();
  record.output_index = 0;
  if (record.data != kNone) {
    data_.push_back(from.data_[record.data]);
    record.data = static_cast<uint32_t>(data_.size() - 1);
  }
  name_value(record, record.name, record.name_hash);
  const ValueId copy = push_value(record);
  if (const RandomInput* random_input = from.random_input(value)) random_inputs_.emplace(copy, *random_input);
  return copy;
}

TaskId Graph::copy_task(const Graph& from, TaskId task, std::span<const ValueId> inputs) {
  const TaskId id = push_task(from.tasks_[task.index()], inputs);
  const std::span<const ValueId> outputs = from.outputs(task);
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const ValueId output = copy_value(from, outputs[i]);
    values_.back().kind = ValueKind::kActivation;
    values_.back().producer = id;
    values_.back().output_index = i;
    output_ids_.push_back(output);
  }
  return id;
}

ValueId Graph::add(const OpInfo& op, std::initializer_list<ValueId> inputs, Attributes attributes, std::string name,
                   const Location& location) {
  const std::string names[] = {std::move(name)};
  const std::vector<ValueId> operands(inputs);
  return outputs(add_task(op, operands, std::move(attributes), names, location))[0];
}

void Graph::set_type(ValueId value, ValueType type) {
  if (!assumptions_.empty()) type = normalised(std::move(type), assumptions_);
  values_[value.index()].type = types_.number(std::move(type));
}
void Graph::set_kind(ValueId value, ValueKind kind) { values_[value.index()].kind = kind; }
void Graph::set_data(ValueId value, TensorData data) {
  uint32_t& at = values_[value.index()].data;
  if (at == kNone) {
    at = static_cast<uint32_t>(data_.size());
    data_.emplace_back();
  }
  data_[at] = std::move(data);
}
void Graph::set_attributes(TaskId task, Attributes attributes) {
  tasks_[task.index()].attributes = attributes_.number(std::move(attributes));
}

Graph::Value Graph::value(ValueId id) const {
  static const TensorData no_data;
  const ValueRecord& record = values_[id.index()];
  return {record.name,         record.kind,         record.producer,
          record.output_index, types_[record.type], record.data == kNone ? no_data : data_[record.data]};
}

Graph::Task Graph::task(TaskId id) const { return {&op(id), inputs(id), outputs(id), attributes(id), location(id)}; }

std::span<const ValueId> Graph::inputs(TaskId id) const {
  const TaskRecord& record = tasks_[id.index()];
  return {operand_ids_.data() + record.first_input, record.input_count};
}

std::span<const ValueId> Graph::outputs(TaskId id) const {
  const TaskRecord& record = tasks_[id.index()];
  return {output_ids_.data() + record.first_output, record.output_count};
}

const Attributes& Graph::attributes(TaskId id) const { return attributes_[tasks_[id.index()].attributes]; }

Location Graph::location(TaskId id) const {
  const TaskRecord& record = tasks_[id.index()];
  return {std::string(record.file), record.line, record.column, std::string(record.node)};
}

std::vector<Graph::Use> Graph::uses(ValueId id) const {
  std::vector<Use> found;
  for_each_use(id, [&](Use use) { found.push_back(use); });
  return found;
}

const OpInfo& Graph::foreign_op(std::string_view name) {
  for (const auto& op : foreign_ops_) {
    if (op->name == name) return *op;
  }
  auto op = std::make_shared<OpInfo>(foreign_entry(name));
  if (!is_foreign_name(name)) {
    op->attributes.clear();
    op->infer = nullptr;
    op->lower = nullptr;
  }
  foreign_ops_.push_back(op);
  return *foreign_ops_.back();
}

bool equal(const Graph& a, const Graph& b) {
  if (a.task_count() != b.task_count() || a.value_count() != b.value_count() || a.name() != b.name() ||
      a.batch_symbol() != b.batch_symbol() || a.inputs() != b.inputs() || a.outputs() != b.outputs() ||
      a.losses() != b.losses() || a.totals() != b.totals() || a.statistics() != b.statistics() ||
      a.state() != b.state() || a.assumptions() != b.assumptions()) {
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
    const RandomInput *random = a.random_input(id), *other = b.random_input(id);
    if ((random == nullptr) != (other == nullptr) || (random != nullptr && *random != *other)) return false;
  }
  return true;
}

}  // namespace rannc::ir
