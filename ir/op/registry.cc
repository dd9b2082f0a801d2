// The operator registry: all families in one sorted table, and queries about tasks that use it.
#include <algorithm>

#include "ir/graph/assumptions.h"
#include "ir/internal/attribute_kinds.h"
#include "ir/op/op.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir {

namespace {

struct Family {
  std::string_view name;
  std::vector<OpInfo> (*declared)();
};

constexpr Family kFamilies[] = {
    {"elementwise", ops::elementwise_ops},
    {"functions", ops::function_ops},
    {"bits", ops::bit_ops},
    {"shape", ops::shape_ops},
    {"slice", ops::slice_ops},
    {"index", ops::index_ops},
    {"scatter", ops::scatter_ops},
    {"order", ops::order_ops},
    {"quantize", ops::quantize_ops},
    {"create", ops::create_ops},
    {"reduce", ops::reduce_ops},
    {"linear", ops::linear_ops},
    {"attention", ops::attention_ops},
    {"memory", ops::memory_ops},
    {"determinant", ops::determinant_ops},
    {"normalize", ops::normalize_ops},
    {"group_norm", ops::group_norm_ops},
    {"convolution", ops::convolution_ops},
    {"control", ops::control_ops},
    {"transposed_windows", ops::transposed_window_ops},
    {"resample", ops::resample_ops},
    {"loss", ops::loss_ops},
    {"recurrent", ops::recurrent_ops},
    {"grad_elementwise", ops::grad_elementwise_ops},
    {"grad_slice", ops::grad_slice_ops},
    {"grad_dense", ops::grad_dense_ops},
    {"grad_attention", ops::grad_attention_ops},
    {"grad_group_norm", ops::grad_group_norm_ops},
    {"grad_recurrent", ops::grad_recurrent_ops},
    {"grad_windows", ops::grad_windows_ops},
    {"grad_resample", ops::grad_resample_ops},
    {"grad_scatter", ops::grad_scatter_ops},
    {"grad_determinant", ops::grad_determinant_ops},
};

std::vector<OpInfo> build_table() {
  std::vector<OpInfo> table;
  for (const Family& family : kFamilies) {
    for (OpInfo& op : family.declared()) {
      op.family = family.name;
      table.push_back(std::move(op));
    }
  }
  std::sort(table.begin(), table.end(), [](const OpInfo& a, const OpInfo& b) { return a.name < b.name; });
  for (size_t i = 1; i < table.size(); ++i) {
    RANNC_CHECK(table[i - 1].name != table[i].name) << table[i].name << " is declared twice";
  }
  return table;
}

const std::vector<OpInfo>& table() {
  static const std::vector<OpInfo> kTable = build_table();
  return kTable;
}

// Sets `key` to all inputs to a type rule except the batch symbol.
void add_to_key(const Graph& graph, TaskId task, std::vector<uint32_t>& key) {
  const auto op = reinterpret_cast<uintptr_t>(&graph.op(task));
  key.assign({static_cast<uint32_t>(op), static_cast<uint32_t>(uint64_t{op} >> 32), graph.attributes_number(task),
              static_cast<uint32_t>(graph.outputs(task).size()), static_cast<uint32_t>(graph.inputs(task).size())});
  for (const ValueId input : graph.inputs(task)) {
    key.push_back(input.valid() ? graph.type_number(input) : UINT32_MAX);
  }
  for (const Assumption& each : graph.assumptions()) {  // results are normalised by them
    for (const size_t hash : {each.left.hash(), each.right.hash()}) {
      key.insert(key.end(), {static_cast<uint32_t>(hash), static_cast<uint32_t>(uint64_t{hash} >> 32)});
    }
  }
}

Diagnostic located(Diagnostic diagnostic, const Graph& graph, TaskId task) {
  diagnostic.where = graph.location(task);
  const std::string& name = graph.op(task).name;
  if (!diagnostic.message.starts_with(name)) diagnostic.message = name + ": " + diagnostic.message;
  return diagnostic;
}

}  // namespace

uint32_t OpInfo::min_inputs() const {
  uint32_t least = 0;
  for (const OperandInfo& operand : operands) least += operand.presence == Presence::kRequired ? 1 : 0;
  return least;
}

uint32_t OpInfo::max_inputs() const {
  const bool variadic = !operands.empty() && operands.back().presence == Presence::kVariadic;
  return variadic ? UINT32_MAX : static_cast<uint32_t>(operands.size());
}

uint32_t OpInfo::min_results() const {
  return static_cast<uint32_t>(std::count_if(
      results.begin(), results.end(), [](const ResultInfo& result) { return result.presence == Presence::kRequired; }));
}

bool OpInfo::may_have_results(size_t count) const {
  if (results.empty() || results.back().presence == Presence::kVariadic) return true;
  return count >= min_results() && count <= results.size();
}

const OperandInfo& OpInfo::operand(size_t index) const { return operands[std::min(index, operands.size() - 1)]; }

const AttributeInfo* OpInfo::attribute(std::string_view name) const {
  const auto at =
      std::find_if(attributes.begin(), attributes.end(), [&](const AttributeInfo& a) { return a.name == name; });
  return at == attributes.end() ? nullptr : &*at;
}

bool OpInfo::depends_on_training(const Attributes& given) const {
  return std::any_of(attributes.begin(), attributes.end(), [&](const AttributeInfo& info) {
    if (!info.depends_on_training) return false;
    const Attribute* value = OpAttributes(*this, given).find(info.name);
    const bool* set = value != nullptr ? std::get_if<bool>(value) : nullptr;  // G4 reports other types
    return set != nullptr && *set;
  });
}

const AttributeInfo* OpInfo::missing(const Attributes& given) const {
  const auto at = std::find_if(attributes.begin(), attributes.end(),
                               [&](const AttributeInfo& a) { return a.required && !given.has(a.name); });
  return at == attributes.end() ? nullptr : &*at;
}

const AttributeInfo& OpAttributes::declared(std::string_view name) const {
  const AttributeInfo* found = op_->attribute(name);
  RANNC_CHECK(found != nullptr) << op_->name << " has no attribute " << name;
  return *found;
}
bool OpAttributes::declares(std::string_view name) const { return op_->attribute(name) != nullptr; }
const Attribute* OpAttributes::find(std::string_view name) const {
  const AttributeInfo& info = declared(name);
  if (const Attribute* given = given_->find(name)) return given;
  return info.otherwise ? &*info.otherwise : nullptr;
}
int64_t OpAttributes::integer(std::string_view name) const {
  const std::optional<Attribute>& otherwise = declared(name).otherwise;
  return given_->integer(name, otherwise ? std::get<Dim>(*otherwise).constant() : 0);
}
double OpAttributes::number(std::string_view name) const {
  const std::optional<Attribute>& otherwise = declared(name).otherwise;
  return given_->number(name, otherwise ? std::get<double>(*otherwise) : 0);
}
bool OpAttributes::flag(std::string_view name) const {
  const std::optional<Attribute>& otherwise = declared(name).otherwise;
  return given_->flag(name, otherwise && std::get<bool>(*otherwise));
}
std::string OpAttributes::text(std::string_view name) const {
  const std::optional<Attribute>& otherwise = declared(name).otherwise;
  return given_->text(name, otherwise ? std::get<std::string>(*otherwise) : "");
}
std::optional<DType> OpAttributes::dtype(std::string_view name) const { return declared(name), given_->dtype(name); }
const Shape* OpAttributes::list(std::string_view name) const { return declared(name), given_->list(name); }
const Body* OpAttributes::body(std::string_view name) const { return declared(name), given_->body(name); }
std::vector<int64_t> OpAttributes::integers(std::string_view name) const {
  return declared(name), given_->integers(name);
}

std::span<const OpInfo> core_ops() { return table(); }

const OpInfo* find_op(std::string_view name) {
  const auto at = std::lower_bound(table().begin(), table().end(), name,
                                   [](const OpInfo& op, std::string_view key) { return op.name < key; });
  return at != table().end() && at->name == name ? &*at : nullptr;
}

const OpInfo& core(std::string_view short_name) {
  const OpInfo* found = find_op("core." + std::string(short_name));
  RANNC_CHECK(found != nullptr) << "no operator core." << short_name;
  return *found;
}

std::vector<const ValueType*> type_list(const Graph& graph, std::span<const ValueId> values) {
  std::vector<const ValueType*> types;
  types.reserve(values.size());
  for (const ValueId value : values) types.push_back(value.valid() ? &graph.type(value) : nullptr);
  return types;
}

std::string arity_fault(const OpInfo& op, std::span<const ValueType* const> operands, size_t results) {
  const uint32_t least = op.min_inputs(), most = op.max_inputs();
  if (operands.size() < least || operands.size() > most) {
    return op.name + " takes " + std::to_string(least) + " to " + (most == UINT32_MAX ? "more" : std::to_string(most)) +
           " operands, found " + std::to_string(operands.size());
  }
  for (uint32_t i = 0; i < least; ++i) {
    if (operands[i] == nullptr) return op.name + " needs operand " + std::to_string(i) + ", which is absent";
  }
  if (op.may_have_results(results)) return {};
  return op.name + " has " + std::to_string(op.results.size()) + " outputs, found " + std::to_string(results);
}

Work work_of(const Graph& graph, TaskId task) {
  const std::vector<const ValueType*> inputs = type_list(graph, graph.inputs(task));
  std::vector<ValueType> outputs;
  for (const ValueId output : graph.outputs(task)) outputs.push_back(graph.type(output));
  const OpInfo& op = graph.op(task);
  const OpCall call{op, inputs, graph.attributes(task), graph.batch_symbol(), static_cast<uint32_t>(outputs.size())};
  return op.work ? op.work(call, outputs) : Work{0, ops::traffic(call, outputs)};
}

namespace {

// Fits bodies to the current types of the operands.
Result<void> fit_bodies(Graph& graph, TaskId task, std::vector<Equality>& assumed) {
  const OpInfo& op = graph.op(task);
  const std::vector<const ValueType*> inputs = type_list(graph, graph.inputs(task));
  const auto results = static_cast<uint32_t>(graph.outputs(task).size());
  if (op.missing(graph.attributes(task)) != nullptr || !arity_fault(op, inputs, results).empty()) return {};
  RANNC_ASSIGN(Attributes fit, op.fit({op, inputs, graph.attributes(task), graph.batch_symbol(), results, &assumed}));
  if (!(fit == graph.attributes(task))) graph.set_attributes(task, std::move(fit));
  return {};
}

// Result types with all sizes as the equalities make them: what a rule has taken for equal may look different to its
// later steps, such as the batch layout of a reshape.
Result<std::vector<ValueType>> types_once_assumed(const OpCall& call, std::vector<Equality>& assumed) {
  std::vector<Assumption> all;
  for (const Equality& each : assumed) all.push_back({each.first, each.second, {}});
  std::vector<ValueType> operands;
  for (const ValueType* type : call.inputs) operands.push_back(normalised(type ? *type : ValueType(), all));
  std::vector<const ValueType*> inputs;
  for (size_t i = 0; i < operands.size(); ++i) inputs.push_back(call.has(i) ? &operands[i] : nullptr);
  const Attributes attributes = normalised(call.attributes.given(), all);
  return types_of({call.op, inputs, attributes, call.batch_symbol, call.output_count, &assumed});
}

// Adds what a rule assumed. Returns the values whose types that changed, by value; empty if nothing was new.
Result<std::vector<bool>> assume_all(Graph& graph, TaskId task, std::span<const Equality> assumed) {
  std::vector<bool> changed;
  for (const Equality& needed : assumed) {
    if (is_assumed(graph, needed)) continue;
    RANNC_TRY(assume(graph, needed, graph.location(task), changed));
  }
  return changed;
}

// Applies the rules of all tasks that have results and read or made something that changed.
Result<void> infer_changed(Graph& graph, std::vector<bool> changed) {
  changed.resize(graph.value_count());
  const auto has_changed = [&](ValueId value) { return value.valid() && changed[value.index()]; };
  for (const TaskId task : graph.tasks()) {
    const auto inputs = graph.inputs(task), outputs = graph.outputs(task);
    const auto is_typed = [&](ValueId value) { return graph.type(value).shape.has_value(); };
    if (!std::all_of(outputs.begin(), outputs.end(), is_typed)) continue;
    if (std::none_of(inputs.begin(), inputs.end(), has_changed) &&
        std::none_of(outputs.begin(), outputs.end(), has_changed)) {
      continue;
    }
    std::vector<uint32_t> before;
    for (const ValueId output : outputs) before.push_back(graph.type_number(output));
    RANNC_TRY(infer_types(graph, task));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (graph.type_number(outputs[i]) != before[i]) changed[outputs[i].index()] = true;
    }
  }
  return {};
}

}  // namespace

Result<void> infer_types(Graph& graph, TaskId task) {
  const OpInfo& op = graph.op(task);
  if (!op.known()) return {};
  std::vector<Equality> assumed;  // rules see what the graph assumes and add to it
  for (const Assumption& each : graph.assumptions()) assumed.emplace_back(each.left, each.right);
  const size_t known_before = assumed.size();
  if (op.fit != nullptr) {
    const auto fit = fit_bodies(graph, task, assumed);
    if (!fit.ok()) return located(fit.diagnostic(), graph, task);
  }
  const std::span<const ValueId> outputs = graph.outputs(task);
  Graph::RuleAnswers& answers = graph.answers_;
  add_to_key(graph, task, answers.key);
  const auto known = answers.known.find(answers.key);
  if (known != answers.known.end() && assumed.size() == known_before) {
    for (size_t i = 0; i < outputs.size(); ++i) graph.values_[outputs[i].index()].type = known->second[i];
    return {};
  }
  const std::vector<const ValueType*> inputs = type_list(graph, graph.inputs(task));
  const OpCall call{
      op, inputs, graph.attributes(task), graph.batch_symbol(), static_cast<uint32_t>(outputs.size()), &assumed};
  std::string fault = arity_fault(op, inputs, outputs.size());
  for (const auto& [name, value] : graph.attributes(task)) {
    if (fault.empty()) fault = attribute_fault(op, name, value);
  }
  if (!fault.empty()) return located(error(fault), graph, task);
  auto types = types_of(call);
  if (!types && assumed.size() > known_before) types = types_once_assumed(call, assumed);
  if (!types) return located(types.diagnostic(), graph, task);
  RANNC_CHECK(types->size() == outputs.size()) << op.name << " gave " << types->size() << " types";
  auto changed = assume_all(graph, task, std::span(assumed).subspan(known_before));
  if (!changed.ok()) return located(changed.diagnostic(), graph, task);
  std::vector<uint32_t> answer;
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph.set_type(outputs[i], std::move((*types)[i]));
    answer.push_back(graph.type_number(outputs[i]));
  }
  if (!changed->empty()) return infer_changed(graph, *std::move(changed));
  answers.known[answers.key] = std::move(answer);
  return {};
}

}  // namespace rannc::ir
