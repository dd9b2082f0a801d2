#include "frontend/internal/size_conditions.h"

#include <algorithm>
#include <vector>

#include "ir/dim/dim_bounds.h"
#include "ir/graph/assumptions.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using ir::Dim;

namespace {

enum class Order : uint8_t { kEqual, kLess, kAtMost };

/// `a < b`, `a <= b` or `a = b`, or its negation.
struct Comparison {
  Order order;
  Dim a, b;
  bool negated = false;
};

const Dim* only_element(const ir::Graph& graph, ValueId value) {
  const auto& contents = graph.type(value).contents;
  return contents && contents->size() == 1 ? &contents->front() : nullptr;
}

const ir::Ops& passes() {
  static const ir::Ops kPasses = {"identity", "reshape", "squeeze", "unsqueeze", "stop_gradient"};
  return kPasses;
}

std::optional<Comparison> compared(const ir::Graph& graph, TaskId task) {
  static const ir::Ops kEqual = "eq", kUnequal = "ne", kLess = "lt", kAtMost = "le", kGreater = "gt", kAtLeast = "ge";
  const ir::OpInfo& op = graph.op(task);
  const bool swapped = kGreater.contains(op) || kAtLeast.contains(op), unequal = kUnequal.contains(op);
  const bool equal = unequal || kEqual.contains(op), strict = kLess.contains(op) || kGreater.contains(op);
  if (!equal && !strict && !kAtMost.contains(op) && !kAtLeast.contains(op)) return std::nullopt;
  const Dim *a = only_element(graph, graph.inputs(task)[0]), *b = only_element(graph, graph.inputs(task)[1]);
  if (a == nullptr || b == nullptr) return std::nullopt;
  if (swapped) std::swap(a, b);
  return Comparison{equal ? Order::kEqual : strict ? Order::kLess : Order::kAtMost, *a, *b, unequal};
}

std::optional<Comparison> comparison_of(const ir::Graph& graph, ValueId condition) {
  static const ir::Ops kNot = "logical_not", kCast = "cast";
  constexpr int kMostTasks = 16;
  bool negated = false;
  for (int i = 0; i < kMostTasks && graph.producer(condition).valid(); ++i) {
    const TaskId task = graph.producer(condition);
    if (auto found = compared(graph, task)) {
      found->negated = found->negated != negated;
      return found;
    }
    const ValueId operand = graph.inputs(task).empty() ? ValueId() : graph.inputs(task)[0];
    const bool casts = kCast.contains(graph.op(task)), inverts = kNot.contains(graph.op(task));
    if (!operand.valid() || (!casts && !inverts && !passes().contains(graph.op(task)))) return std::nullopt;
    const Dim* const size =
        casts && graph.type(operand).dtype != ir::DType::kBool ? only_element(graph, operand) : nullptr;
    if (size != nullptr) return Comparison{Order::kEqual, *size, 0, !negated};
    negated = negated != inverts;
    condition = operand;
  }
  return std::nullopt;
}

ir::Equality if_true(const Comparison& of) {
  if (of.order == Order::kEqual) return {of.a, of.b};
  return of.order == Order::kLess ? ir::Equality{smaller(of.a, of.b - Dim(1)), of.a}
                                  : ir::Equality{larger(of.a, of.b), of.b};
}

ir::Equality if_false(const Comparison& of) {
  if (of.order == Order::kLess) return {larger(of.a, of.b), of.a};
  if (of.order == Order::kAtMost) return {smaller(of.a, of.b + Dim(1)), of.b + Dim(1)};
  // Sizes differ if the difference is at least 1. No axis of interest is empty, so a size other than 1 is at least 2.
  for (const auto& [size, one] : {std::pair(of.a, of.b), std::pair(of.b, of.a)}) {
    if (one == Dim(1) && never_negative(size)) return {smaller(size, Dim(2)), Dim(2)};
  }
  return {smaller(larger(of.a - of.b, of.b - of.a), Dim(1)), Dim(1)};
}

}  // namespace

std::optional<std::array<Outcome, 2>> outcomes_of_sizes(const ir::Graph& graph, ValueId condition) {
  const auto found = comparison_of(graph, condition);
  if (!found) return std::nullopt;
  const std::string& samples = graph.batch_symbol();
  const bool of_samples = !samples.empty() && (found->a.uses(samples) || found->b.uses(samples));
  if (of_samples || (found->a.is_symbol() && found->b.is_symbol())) return std::nullopt;
  const auto reduced = [](const ir::Equality& of) { return ir::reduced_equality(of.first, of.second); };
  return std::array<Outcome, 2>{
      {{!found->negated, reduced(if_true(*found))}, {found->negated, reduced(if_false(*found))}}};
}

std::optional<std::set<std::string>> symbols_of_condition(const ir::Graph& graph, ValueId condition) {
  constexpr size_t kMostValues = 64;
  std::set<std::string> symbols;
  std::vector<ValueId> open = {condition};
  for (size_t next = 0; next < open.size(); ++next) {
    if (const auto& contents = graph.type(open[next]).contents) {
      for (const Dim& element : *contents) element.collect_symbols(symbols);
      continue;
    }
    const TaskId task = graph.producer(open[next]);
    if (!task.valid() || open.size() > kMostValues) return std::nullopt;
    for (const ValueId operand : graph.inputs(task)) {
      if (operand.valid()) open.push_back(operand);
    }
  }
  return symbols;
}

Result<void> assume_sizes(ir::Graph& graph, const ir::Equality& equality, const Location& where) {
  if (ir::is_assumed(graph, equality)) return {};
  std::vector<bool> changed;
  RANNC_TRY(ir::assume(graph, equality, where, changed));
  changed.resize(graph.value_count());
  const auto has_changed = [&](ValueId value) { return value.valid() && changed[value.index()]; };
  const auto is_untyped = [&](ValueId value) { return !graph.type(value).shape; };
  for (const TaskId task : graph.tasks()) {
    const auto inputs = graph.inputs(task), outputs = graph.outputs(task);
    const bool has_news = std::any_of(inputs.begin(), inputs.end(), has_changed) ||
                          std::any_of(outputs.begin(), outputs.end(), has_changed);
    if (!has_news || std::any_of(outputs.begin(), outputs.end(), is_untyped)) continue;
    RANNC_TRY(ir::infer_types(graph, task));
    for (const ValueId output : outputs) changed[output.index()] = true;
  }
  return {};
}

Result<void> assume_not_one(ir::Graph& graph, const Dim& size, const Location& where) {
  std::set<std::string> symbols, of_inputs;
  size.collect_symbols(symbols);
  for (const ValueId input : graph.inputs()) {
    for (const Dim& dim : graph.type(input).shape.value_or(ir::Shape{})) dim.collect_symbols(of_inputs);
  }
  const bool counts_rows = !graph.inputs().empty() &&  // an open body captures its inputs
                           !std::includes(of_inputs.begin(), of_inputs.end(), symbols.begin(), symbols.end());
  if (counts_rows || symbols.contains(graph.batch_symbol()) || never_negative(size - Dim(2))) return {};
  return assume_sizes(graph, {smaller(size, Dim(2)), Dim(2)}, where);
}

}  // namespace rannc::frontend
