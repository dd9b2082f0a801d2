// Decides which tasks are loops, and how their values lie over rows and columns.
#include "ir/op/loop.h"

#include <algorithm>

#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/op/loops/loops.h"
#include "ir/op/op.h"

namespace rannc::ir {

namespace {

using Kind = LoopStatement::Kind;

/// Longer rows, which are summed lane by lane, are left to LibTorch's sums of sums.
constexpr int64_t kMostColumns = 1 << 19;

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

/// Neighboring axes of rows that a value has elements for.
struct Run {
  size_t first = 0, end = 0;
};

/// The runs of a value of sizes `padded` over rows of sizes `all`, whose last axis is the columns.
std::vector<Run> runs_of(const Shape& padded, const Shape& all) {
  std::vector<Run> runs;
  bool open = false;
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    if (all[i] == Dim(1)) continue;  // part of any run
    const bool own = padded[i] != Dim(1);
    if (own && !open) runs.push_back({i, i});
    if (own) runs.back().end = i + 1;
    open = own;
  }
  return runs;
}

/// How `shape` lies over `all`. Nothing if its own axes are more than two runs of neighbors.
std::optional<LoopValue> value_over(const Shape& shape, const Shape& all) {
  const size_t last = all.size() - 1;
  if (shape == all) return LoopValue{LoopValue::Kind::kFull, 1, product(all, 0, last)};
  if (shape.size() > all.size()) return std::nullopt;
  Shape padded(all.size() - shape.size(), Dim(1));
  padded.insert(padded.end(), shape.begin(), shape.end());
  for (size_t i = 0; i < all.size(); ++i) {
    if (padded[i] != all[i] && padded[i] != Dim(1)) return std::nullopt;
  }
  const std::vector<Run> runs = runs_of(padded, all);
  if (runs.size() > 2) return std::nullopt;
  LoopValue value;
  value.kind = padded[last] == all[last] && all[last] != Dim(1) ? LoopValue::Kind::kRows : LoopValue::Kind::kScalars;
  if (runs.empty()) return value;
  value.divisor = product(all, runs.back().end, last);
  value.period = product(all, runs.back().first, runs.back().end);
  if (runs.size() < 2) return value;
  value.outer_divisor = product(all, runs[0].end, last);
  value.outer_period = product(all, runs[0].first, runs[0].end);
  return value;
}

/// Whether the types are those of a loop: one type of floats, truth values, and integers where the rule reads them.
/// `dtype` receives the type of the floats.
bool has_loop_types(const LowerCall& call, const ops::LoopRule& rule, std::optional<DType>& dtype) {
  const auto allows = [&](size_t operand, DType type) {
    const bool read = type == DType::kI64 || type == DType::kI32;
    return read && ((rule.integers && operand == 0) || (rule.labels && rule.labels->operand == operand));
  };
  for (size_t i = 0; i < call.inputs.size() + call.outputs.size(); ++i) {
    const bool is_operand = i < call.inputs.size();
    const ValueType* const type = is_operand ? call.inputs[i] : call.outputs[i - call.inputs.size()];
    if (type == nullptr || type->dtype == DType::kBool || (is_operand && allows(i, type->dtype))) continue;
    if (type->dtype != DType::kF32 && type->dtype != DType::kF64) return false;
    if (dtype && *dtype != type->dtype) return false;
    dtype = type->dtype;
  }
  return dtype.has_value() || rule.truths;
}

/// Fills in operands and results. False if one does not lie over rows and columns.
bool place(LoopTask& task, const LowerCall& call, const Shape& all) {
  for (const ValueType* type : call.inputs) {
    task.operands.emplace_back();
    if (type == nullptr) continue;
    Shape shape = *type->shape;
    if (task.labels && task.labels->operand + 1 == task.operands.size()) shape.emplace_back(1);
    const auto value = value_over(shape, all);
    if (!value) return false;
    task.operands.back() = *value;
    task.by_rows = task.by_rows || (value->kind != LoopValue::Kind::kFull &&
                                    !(value->kind == LoopValue::Kind::kScalars && value->period == Dim(1)));
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const auto made =
        std::find_if(task.body.begin(), task.body.end(), [&](const LoopStatement& each) { return each.result == i; });
    if (made == task.body.end()) return false;
    task.results.push_back(made->kind);
    if (made->kind == Kind::kEach && *call.outputs[i]->shape != all) return false;
    if (made->kind != Kind::kEach && call.outputs[i]->dtype == DType::kBool) return false;
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
  auto rule = ops::loop_rule(call);
  if (!rule) return std::nullopt;
  LoopTask task{.body = std::move(rule->body), .rows = 1, .columns = 1, .dtype = {}, .labels = rule->labels};
  if (!has_loop_types(call, *rule, task.dtype)) return std::nullopt;
  task.by_rows = reduces(task.body);
  const Shape* all = iterated(call, task.by_rows);
  if (all == nullptr || all->empty()) return std::nullopt;
  task.rows = product(*all, 0, all->size() - 1);
  task.columns = all->back();
  if (!place(task, call, *all)) return std::nullopt;
  if (task.labels && !task.columns.is_constant()) return std::nullopt;
  if (!task.by_rows || !task.columns.is_constant()) return task;
  if (task.columns.constant() < rule->least_columns || task.columns.constant() > kMostColumns) return std::nullopt;
  return task;
}

bool has_all_rows(const LoopValue& value, const Dim& rows) {
  if (value.kind == LoopValue::Kind::kFull) return true;
  return value.divisor == Dim(1) && value.period == rows && value.outer_period == Dim(1);
}

bool is_known_late(LoopStatement::Kind made) { return made == Kind::kColumnSum || made == Kind::kTotal; }

bool keeps_columns(const Graph& graph, TaskId task) {
  static const OpInfo& reshape = core("reshape");
  if (&graph.op(task) != &reshape) return false;
  const auto& from = graph.type(graph.inputs(task)[0]).shape;
  const auto& to = graph.type(graph.outputs(task)[0]).shape;
  return from && to && !from->empty() && !to->empty() && from->back() == to->back();
}

}  // namespace rannc::ir
