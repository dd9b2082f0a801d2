// Translates If: in place if it is known or can be assumed which branch runs, else as one task with two bodies.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "frontend/onnx/internal/translate/translation.h"
#include "ir/graph/assumptions.h"
#include "ir/graph/constant.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::NodeProto;

Translation::Attempt Translation::begin_attempt(const Region& region) {
  Attempt attempt{region.graph.clone(), region.taken, region.of, region.counted, growth_.bytes()};
  attempt.copy = Growth::bytes_of_copy(region.graph);
  growth_.set_back(attempt.grown + attempt.copy);
  return attempt;
}

void Translation::undo(const Attempt& attempt, Region& region) {
  region.graph = attempt.graph.clone();
  forget_stored(region);
  region.taken = attempt.taken;
  region.of = attempt.of;
  region.counted = attempt.counted;
  growth_.set_back(attempt.grown);
}

/// An If.
struct Translation::Branches {
  const NodeProto& node;
  int opset;
  Place where;
  ValueId condition;
  const GraphProto *then = nullptr, *otherwise = nullptr;
};

namespace {

/// Adds what the user can do about branches that do not fit together. `symbols`: those that the condition depends on.
Diagnostic advised(Diagnostic failure, const std::optional<std::set<std::string>>& symbols) {
  if (!symbols || symbols->empty()) return failure;
  return std::move(failure).note(
      fmt::format("sizes decide which branch runs: fix them with --size {}=N", fmt::join(*symbols, "=N --size ")));
}

/// Returns the name of the one-element input that alone decides a condition, such as a sampling rate; empty if there is
/// none.
std::string deciding_input(const ir::Graph& graph, ValueId condition) {
  constexpr size_t kMostValues = 64;
  std::string name;
  std::vector<ValueId> open = {condition};
  for (size_t next = 0; next < open.size(); ++next) {
    const ir::ValueType& type = graph.type(open[next]);
    const TaskId task = graph.producer(open[next]);
    if (type.contents || graph.kind(open[next]) == ir::ValueKind::kConstant) continue;
    if (task.valid() && open.size() <= kMostValues) {
      const auto operands = graph.inputs(task);
      std::copy_if(operands.begin(), operands.end(), std::back_inserter(open),
                   [](ValueId each) { return each.valid(); });
      continue;
    }
    const std::string found(graph.value(open[next]).name);
    const bool is_input = graph.kind(open[next]) == ir::ValueKind::kInput && ir::static_count(type) == 1;
    if (task.valid() || !is_input || (!name.empty() && name != found)) return "";
    name = found;
  }
  return name;
}

}  // namespace

Result<void> Translation::add_if(Scope& scope, const NodeProto& node, int opset) {
  Branches branches{node, opset, at(scope, node), {}};
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == "then_branch" && attribute.has_g()) branches.then = &attribute.g();
    if (attribute.name() == "else_branch" && attribute.has_g()) branches.otherwise = &attribute.g();
  }
  if (branches.then == nullptr || branches.otherwise == nullptr) {
    return error(branches.where, "If needs a then_branch and an else_branch");
  }
  RANNC_ASSIGN(branches.condition, look_up(scope, node.input(0), branches.where));
  ir::Graph& graph = scope.region.graph;
  const auto& known = graph.type(branches.condition).contents;
  if (known && known->size() == 1 && known->front().is_constant()) {
    return take_branch(scope, branches, known->front().constant() != 0);
  }
  const auto outcomes = outcomes_of_sizes(graph, branches.condition);
  for (const Outcome& each : outcomes.value_or(std::array<Outcome, 2>())) {
    if (outcomes && ir::is_assumed(graph, each.required)) return take_branch(scope, branches, each.holds);
  }
  const bool can_undo = outcomes && growth_.allows(Growth::bytes_of_copy(graph));
  std::optional<Attempt> attempt;
  if (can_undo) attempt = begin_attempt(scope.region);
  // What a branch assumes may decide the condition afterwards.
  const auto symbols = symbols_of_condition(graph, branches.condition);
  const std::string input = deciding_input(graph, branches.condition);
  const std::vector<ir::Assumption> before = graph.assumptions();
  auto made = branch_task(scope, branches);
  const bool assumes = graph.assumptions() != before;
  if (attempt && (!made.ok() || assumes)) {
    undo(*attempt, scope.region);
    return assume_branch(scope, branches, *outcomes);
  }
  if (attempt) keep(*attempt);
  if (assumes && !input.empty()) {
    notes_.remarks.push_back({branches.where, fmt::format("the sizes must suit both branches, whichever runs; "
                                                          "--input-value {}=VALUE keeps one branch",
                                                          input)});
  }
  if (!made.ok()) return advised(made.diagnostic(), symbols);
  return define_outputs(scope, node, *made);
}

Result<void> Translation::take_branch(Scope& scope, const Branches& branches, bool holds) {
  RANNC_ASSIGN(const Node::Wiring wiring, wire(scope, branches.node));
  const Run only{"", "", wiring.output_names};
  const GraphProto& taken = holds ? *branches.then : *branches.otherwise;
  RANNC_ASSIGN(Items made, run(scope, scope.region, branches.node, taken, {}, only));
  if (made.size() < static_cast<size_t>(branches.node.output_size())) {
    return error(branches.where, "its branch makes too few outputs");
  }
  return define_outputs(scope, branches.node, std::move(made));
}

Result<void> Translation::assume_branch(Scope& scope, const Branches& branches,
                                        const std::array<Outcome, 2>& outcomes) {
  const Location where = branches.where;
  const size_t first = choices_.other.contains(where.node) ? 1 : 0;
  choices_.taken.push_back(where.node);
  for (const size_t at : {first, 1 - first}) {
    const auto assumed = assume_sizes(scope.region.graph, outcomes[at].required, where);
    if (assumed.ok()) return take_branch(scope, branches, outcomes[at].holds);
    if (at != first) return assumed.diagnostic();
  }
  return {};
}

Result<std::vector<ValueId>> Translation::branch_task(Scope& scope, const Branches& branches) {
  std::vector<ValueId> taken;
  OpenBody first(scope.region), second(scope.region);
  for (const auto& [graph, open, name] :
       {std::tuple(branches.then, &first, "then/"), std::tuple(branches.otherwise, &second, "else/")}) {
    RANNC_ASSIGN(const Items made, run(scope, open->region(), branches.node, *graph, {}, {name, ""}));
    RANNC_ASSIGN(const std::vector<ValueId> outputs, tensors(made, branches.where));
    RANNC_TRY(close(*open, outputs, Runs{}, branches.where));
    for (const ValueId value : open->taken()) {
      if (std::find(taken.begin(), taken.end(), value) == taken.end()) taken.push_back(value);
    }
  }
  RANNC_ASSIGN(Node::Wiring wiring, wire(scope, branches.node));
  Node view(scope.region.graph, branches.node, branches.opset, branches.where, std::move(wiring), source_);
  std::vector<ValueId> operands = {view.emit("reshape", {branches.condition}, {{"shape", ir::Shape{}}})};
  operands.insert(operands.end(), taken.begin(), taken.end());
  view.results("if", operands, {{"then", std::move(first).body(taken)}, {"else", std::move(second).body(taken)}});
  if (view.failure()) return Diagnostic(*view.failure());
  return view.outputs();
}

}  // namespace rannc::frontend
