// Decides which tasks are loops, and how their values lie over rows and columns.
#include "ir/op/loop.h"

#include <algorithm>

#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/op.h"
#include "ir/ops/loops.h"

namespace rannc::ir {

namespace {

using Kind = LoopStatement::Kind;

/// Rows shorter than a vector are left to LibTorch.
constexpr int64_t kLeastColumns = 16;

Dim product(const Shape& shape, size_t first, size_t last) {
  Dim all = 1;
  for (size_t i = first; i < last; ++i) all = all * shape[i];
  return all;
}

bool reduces(const LoopBody& body) {
  return std::any_of(body.begin(), body.end(), [](const LoopStatement& each) { return each.kind != Kind::kEach; });
}

/// The axes that all rows and columns are counted by: those of the operand that a reduction reads, else of the result.
const Shape* iterated(const LowerCall& call, bool by_rows) {
  const Shape* found = nullptr;
  for (const auto values : {by_rows ? call.inputs : call.outputs, call.outputs}) {
    for (const ValueType* type : values) {
      if (type == nullptr) continue;
      if (!type->shape) return nullptr;
      if (found == nullptr || type->shape->size() > found->size()) found = &*type->shape;
    }
  }
  return found;
}

/// How `shape` lies over `all`. Nothing if its own axes are not neighbors.
std::optional<LoopValue> value_over(const Shape& shape, const Shape& all) {
  if (shape == all) return LoopValue{LoopValue::Kind::kFull, 1, product(all, 0, all.size() - 1)};
  if (shape.size() > all.size()) return std::nullopt;
  Shape padded(all.size() - shape.size(), Dim(1));
  padded.insert(padded.end(), shape.begin(), shape.end());
  for (size_t i = 0; i < all.size(); ++i) {
    if (padded[i] != all[i] && padded[i] != Dim(1)) return std::nullopt;
  }
  const size_t last = all.size() - 1;
  LoopValue value;
  value.kind = padded[last] == all[last] && all[last] != Dim(1) ? LoopValue::Kind::kRows : LoopValue::Kind::kScalars;
  const auto own = [&](size_t i) { return padded[i] != Dim(1) || all[i] == Dim(1); };
  size_t first = 0, end = last;
  while (first < last && padded[first] == Dim(1)) ++first;
  while (end > first && padded[end - 1] == Dim(1)) --end;
  for (size_t i = first; i < end; ++i) {
    if (!own(i)) return std::nullopt;
  }
  value.divisor = product(all, end, last);
  value.period = product(all, first, end);
  return value;
}

/// Whether the types are those of a loop: one type of floats, and truth values.
std::optional<DType> loop_dtype(const LowerCall& call) {
  std::optional<DType> dtype;
  for (const auto values : {call.inputs, call.outputs}) {
    for (const ValueType* type : values) {
      if (type == nullptr || type->dtype == DType::kBool) continue;
      if (type->dtype != DType::kF32 && type->dtype != DType::kF64) return std::nullopt;
      if (dtype && *dtype != type->dtype) return std::nullopt;
      dtype = type->dtype;
    }
  }
  return dtype;
}

bool is_truth(const ValueType* type) { return type != nullptr && type->dtype == DType::kBool; }

/// Fills in operands and results. False if one does not lie over rows and columns.
bool place(LoopTask& task, const LowerCall& call, const Shape& all) {
  for (const ValueType* type : call.inputs) {
    task.operands.emplace_back();
    if (type == nullptr) continue;
    const auto value = value_over(*type->shape, all);
    if (!value || (is_truth(type) && value->kind == LoopValue::Kind::kScalars)) return false;
    task.operands.back() = *value;
    task.by_rows = task.by_rows || (value->kind != LoopValue::Kind::kFull &&
                                    !(value->kind == LoopValue::Kind::kScalars && value->period == Dim(1)));
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const auto made = std::find_if(task.body.begin(), task.body.end(),
                                   [&](const LoopStatement& each) { return each.name == "y" + std::to_string(i); });
    if (made == task.body.end()) return false;
    task.results.push_back(made->kind);
    if (made->kind == Kind::kEach && *call.outputs[i]->shape != all) return false;
    if (made->kind != Kind::kEach && is_truth(call.outputs[i])) return false;
  }
  return true;
}

}  // namespace

std::optional<LoopTask> loop_task(const Graph& graph, TaskId id) {
  if (taped_of(graph, id) || vjp_of(graph, id)) return std::nullopt;
  const auto inputs = graph.inputs(id);
  auto in = type_list(graph, inputs);
  for (size_t i = 0; i < in.size(); ++i) {
    if (!reads_operand(graph, id, i)) in[i] = nullptr;
  }
  auto out = type_list(graph, graph.outputs(id));
  const LowerCall call(graph.op(id), in, out, graph.attributes(id));
  for (const auto* values : {&in, &out}) {
    for (const ValueType* type : *values) {
      if (type != nullptr && !type->shape) return std::nullopt;
    }
  }
  const auto dtype = loop_dtype(call);
  if (!dtype) return std::nullopt;
  auto body = ops::loop_body(call);
  if (!body) return std::nullopt;
  LoopTask task{.body = *std::move(body), .rows = 1, .columns = 1, .dtype = *dtype};
  task.by_rows = reduces(task.body);
  const Shape* all = iterated(call, task.by_rows);
  if (all == nullptr || all->empty()) return std::nullopt;
  task.rows = product(*all, 0, all->size() - 1);
  task.columns = all->back();
  if (!place(task, call, *all)) return std::nullopt;
  if (task.by_rows && task.columns.is_constant() && task.columns.constant() < kLeastColumns) return std::nullopt;
  return task;
}

bool keeps_columns(const Graph& graph, TaskId task) {
  static const OpInfo& reshape = core("reshape");
  if (&graph.op(task) != &reshape) return false;
  const auto& from = graph.type(graph.inputs(task)[0]).shape;
  const auto& to = graph.type(graph.outputs(task)[0]).shape;
  return from && to && !from->empty() && !to->empty() && from->back() == to->back();
}

}  // namespace rannc::ir
