// Permutations that cancel once elementwise tasks between them are done in the order from before.
// Example: `tests/passes/golden/fuse_permutes.rir`.
#include <algorithm>

#include "ir/op/op.h"
#include "passes/fusions/rules.h"

namespace rannc::passes::fusion {

using namespace ir;  // NOLINT: patterns read as sentences

namespace {

constexpr Capture kX{0}, kY{1}, kInner{2}, kOther{3}, kNumber{4};

const Ops& unary() {
  static const Ops kUnary{"neg",  "abs",   "relu",       "sign",        "clamp",    "cast",       "exp", "log",
                          "sqrt", "rsqrt", "reciprocal", "erf",         "tanh",     "sigmoid",    "sin", "cos",
                          "silu", "gelu",  "hardswish",  "hardsigmoid", "softplus", "leaky_relu", "elu"};
  return kUnary;
}
const Ops& binary() {
  static const Ops kBinary{"add", "sub", "mul", "div", "pow", "maximum", "minimum"};
  return kBinary;
}

bool is_one_number(const Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  return shape && shape->size() <= 1 && element_count(*shape) == Dim(1);
}

/// The one task that reads a value; invalid where there are others, or the value is given out.
TaskId only_reader(const Graph& graph, ValueId value) {
  TaskId reader;
  const bool several = graph.any_use(value, [&](Graph::Use use) {
    const bool another = reader.valid();
    reader = use.task;
    return another;
  });
  const auto& outputs = graph.outputs();
  return several || std::find(outputs.begin(), outputs.end(), value) != outputs.end() ? TaskId() : reader;
}

/// Whether a permutation on a value would meet another one, past tasks that it may be moved behind.
bool meets_another(const Graph& graph, ValueId value, const std::vector<int64_t>& order) {
  static const Ops kPermute{"permute"};
  constexpr int kMostTasks = 24;
  for (int i = 0; i < kMostTasks; ++i) {
    const TaskId reader = only_reader(graph, value);
    if (!reader.valid()) return false;
    if (kPermute.contains(graph.op(reader))) return true;
    if (!unary().contains(graph.op(reader)) && !binary().contains(graph.op(reader))) return false;
    for (const ValueId operand : graph.inputs(reader)) {
      if (operand == value || is_one_number(graph, operand)) continue;
      const TaskId maker = graph.producer(operand);
      return maker.valid() && kPermute.contains(graph.op(maker)) && only_reader(graph, operand).valid() &&
             order_of(graph, maker) == order;
    }
    value = graph.outputs(reader)[0];
  }
  return false;
}

/// The operands of the task without their permutations, in its order.
std::vector<Capture> operands_of(const Match& match) {
  const Graph& graph = match.graph();
  std::vector<Capture> operands;
  for (const ValueId operand : graph.inputs(match.task(kResult))) {
    for (const auto& [made, place] : {std::pair{kInner, kX}, std::pair{kOther, kY}, std::pair{kNumber, kNumber}}) {
      if (!match.has(made) || match[made] != operand) continue;
      operands.push_back(place);
      break;
    }
  }
  return operands;
}

std::string_view name_of(const Match& match) {
  return std::string_view(match.graph().op(match.task(kResult)).name).substr(std::string_view("core.").size());
}

bool may_move(const Match& match) {
  const Graph& graph = match.graph();
  const std::vector<int64_t> order = order_of(graph, match.task(kInner));
  if (match.has(kNumber) && !is_one_number(graph, match[kNumber])) return false;
  if (match.has(kOther) && order_of(graph, match.task(kOther)) != order) return false;
  if (!match.has(kOther) && !meets_another(graph, match[kResult], order)) return false;
  std::vector<const ValueType*> operands;
  for (const Capture place : operands_of(match)) {
    if (!outlives(match, place)) return false;
    operands.push_back(&graph.type(match[place]));
  }
  const auto types = types_of({core(name_of(match)), operands, match.attributes(kResult), graph.batch_symbol()});
  return types.ok() && makes_result(match, "permute", {&types->front()}, match.attributes(kInner));
}

std::vector<ValueId> build(const Match& match, Builder& make) {
  std::vector<ValueId> operands;
  for (const Capture place : operands_of(match)) operands.push_back(make[place]);
  const ValueId made = make.emit(name_of(match), operands, match.attributes(kResult));
  return make.result("permute", {made}, match.attributes(kInner));
}

}  // namespace

std::vector<Rewrite> permutes() {
  const Pattern x = op("permute", any(kX)).as(kInner), y = op("permute", any(kY)).as(kOther);
  std::vector<Rewrite> rules = permutations();
  const Pattern moved =
      either({op(binary(), x, y), op(unary(), x), op(binary(), x, any(kNumber)), op(binary(), any(kNumber), x)});
  rules.push_back({"permutations moved behind a task", moved.as(kResult).where(may_move), build});
  return rules;
}

}  // namespace rannc::passes::fusion
