// The operator registry: all families in one sorted table, and what is asked of a task through it.
#include <algorithm>

#include "ir/assumptions.h"
#include "ir/op.h"
#include "ir/ops/rules.h"

namespace rannc::ir {

namespace {

std::vector<OpInfo> build_table() {
  std::vector<OpInfo> table;
  for (const auto family :
       {ops::elementwise_ops, ops::shape_ops, ops::slice_ops, ops::index_ops, ops::create_ops, ops::reduce_ops,
        ops::linear_ops, ops::normalize_ops, ops::convolution_ops, ops::random_ops, ops::loss_ops}) {
    for (OpInfo& op : family()) table.push_back(std::move(op));
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

std::vector<const ValueType*> operand_types(const Graph& graph, TaskId task) {
  std::vector<const ValueType*> types;
  for (const ValueId input : graph.inputs(task)) types.push_back(input.valid() ? &graph.type(input) : nullptr);
  return types;
}

// All that a type rule sees, but for the batch symbol.
void ask(const Graph& graph, TaskId task, std::vector<uint32_t>& key) {
  const auto op = reinterpret_cast<uintptr_t>(&graph.op(task));
  key.assign({static_cast<uint32_t>(op), static_cast<uint32_t>(uint64_t{op} >> 32), graph.attributes_number(task),
              static_cast<uint32_t>(graph.outputs(task).size())});
  for (const ValueId input : graph.inputs(task)) {
    key.push_back(input.valid() ? graph.type_number(input) : UINT32_MAX);
  }
}

// Arity as the registry declares it.
Result<void> check_call(const OpCall& call) {
  const OpInfo& op = call.op;
  const size_t count = call.inputs.size();
  if (count < op.min_inputs || count > op.max_inputs) {
    return error(op.name + " takes " + std::to_string(op.min_inputs) + " to " + std::to_string(op.max_inputs) +
                 " operands, found " + std::to_string(count));
  }
  if (op.outputs != 0 && call.output_count != op.outputs) {
    return error(op.name + " has " + std::to_string(op.outputs) + " outputs, the task " +
                 std::to_string(call.output_count));
  }
  for (uint32_t i = 0; i < op.min_inputs; ++i) {
    if (!call.has(i)) return error(op.name + ": operand " + std::to_string(i) + " is missing");
  }
  return {};
}

Diagnostic located(Diagnostic diagnostic, const Graph& graph, TaskId task) {
  diagnostic.where = graph.location(task);
  const std::string& name = graph.op(task).name;
  if (!diagnostic.message.starts_with(name)) diagnostic.message = name + ": " + diagnostic.message;
  return diagnostic;
}

}  // namespace

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

Work work_of(const Graph& graph, TaskId task) {
  const std::vector<const ValueType*> inputs = operand_types(graph, task);
  std::vector<ValueType> outputs;
  for (const ValueId output : graph.outputs(task)) outputs.push_back(graph.type(output));
  const OpInfo& op = graph.op(task);
  const OpCall call{op, inputs, graph.attributes(task), graph.batch_symbol(), static_cast<uint32_t>(outputs.size())};
  return op.work ? op.work(call, outputs) : Work{0, ops::traffic(call, outputs)};
}

Result<void> infer_types(Graph& graph, TaskId task) {
  const OpInfo& op = graph.op(task);
  if (!op.known()) return {};
  const std::span<const ValueId> outputs = graph.outputs(task);
  Graph::RuleAnswers& answers = graph.answers_;
  ask(graph, task, answers.key);
  if (const auto known = answers.known.find(answers.key); known != answers.known.end()) {
    for (size_t i = 0; i < outputs.size(); ++i) graph.values_[outputs[i].index()].type = known->second[i];
    return {};
  }
  const std::vector<const ValueType*> inputs = operand_types(graph, task);
  std::vector<Equality> assumed;
  const OpCall call{
      op, inputs, graph.attributes(task), graph.batch_symbol(), static_cast<uint32_t>(outputs.size()), &assumed};
  if (auto checked = check_call(call); !checked) return located(checked.diagnostic(), graph, task);
  auto types = op.infer(call);
  if (!types) return located(types.diagnostic(), graph, task);
  RANNC_CHECK(types->size() == outputs.size()) << op.name << " gave " << types->size() << " types";
  for (Equality& needed : assumed) {
    if (is_assumed(graph, needed)) continue;
    graph.assumptions_.push_back({std::move(needed.first), std::move(needed.second), graph.location(task)});
  }
  std::vector<uint32_t>& answer = answers.known[answers.key];
  for (size_t i = 0; i < outputs.size(); ++i) {
    graph.set_type(outputs[i], std::move((*types)[i]));
    answer.push_back(graph.type_number(outputs[i]));
  }
  return {};
}

}  // namespace rannc::ir
