#include "ir/match/internal/matcher.h"

#include <algorithm>
#include <array>

#include "ir/graph/results.h"
#include "ir/op/op.h"

namespace rannc::ir {

namespace {

// Bounds patterns with combinatorial alternatives, so that searching a graph is linear in its tasks for any pattern.
constexpr uint64_t kMostSteps = 4096;

void keep_first_of_equals(std::vector<TaskId>& tasks) {
  size_t kept = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const auto end = tasks.begin() + static_cast<std::ptrdiff_t>(kept);
    if (std::find(tasks.begin(), end, tasks[i]) == end) tasks[kept++] = tasks[i];
  }
  tasks.resize(kept);
}

// Whether a cast, or a move without a cast, preserves numbers. Narrower types are assumed to hold them.
bool keeps_numbers(DType from, DType to) {
  if (to == DType::kBool) return from == DType::kBool;
  return !(is_float(from) && is_integer(to));
}

}  // namespace

Matcher::Matcher(const Graph& graph, const std::vector<bool>* results) : graph_(graph), results_(results) {
  match_.graph_ = &graph;
}

bool Matcher::match(const Pattern& pattern, ValueId value, const Pattern::Condition& accept) {
  accept_ = &accept;
  std::fill(std::begin(match_.places_), std::end(match_.places_), ValueId());
  match_.tasks_.clear();
  last_step_ = steps_ + kMostSteps;
  const Goal goal{&pattern.node(), value, nullptr};
  if (!solve(&goal)) return false;
  keep_first_of_equals(match_.tasks_);
  return true;
}

// Restores the match if it fails.
bool Matcher::solve(const Goal* goal) {
  if (goal == nullptr) return !*accept_ || (*accept_)(match_);
  if (++steps_ > last_step_) return false;
  if (goal->conditions_only) return conditions_hold(*goal->node) && solve(goal->next);
  ValueId places[Capture::kMost];
  std::copy(std::begin(match_.places_), std::end(match_.places_), places);
  const size_t tasks = match_.tasks_.size();
  if (fulfil(*goal)) return true;
  std::copy(std::begin(places), std::end(places), match_.places_);
  match_.tasks_.resize(tasks);
  return false;
}

bool Matcher::fulfil(const Goal& goal) {
  using Kind = Pattern::Node::Kind;
  const Pattern::Node& node = *goal.node;
  const ValueId value = goal.value;
  if (!value.valid() && node.kind != Kind::kAbsent && node.kind != Kind::kEither) return false;
  if (node.one_use && !is_read_once(value)) return false;
  if (value.valid() && !keep(node.place, value)) return false;
  const Goal conditions{&node, value, goal.next, true};
  const Goal* const rest = node.conditions.empty() ? goal.next : &conditions;
  switch (node.kind) {
    case Kind::kAny:
      return solve(rest);
    case Kind::kAbsent:
      return !value.valid() && solve(rest);
    case Kind::kOp:
      return fulfil_op(goal, rest);
    case Kind::kScalar: {
      const auto number = scalar_constant(graph_, value);
      return number && number == node.number.value_or(*number) && solve(rest);
    }
    case Kind::kOfKind:
      return graph_.kind(value) == node.value_kind && solve(rest);
    case Kind::kSame:
      return match_[node.same] == value && solve(rest);
    case Kind::kThrough:
      return fulfil_through(goal, rest);
    case Kind::kEither:
      return fulfil_either(goal, rest);
  }
  return false;
}

bool Matcher::fulfil_op(const Goal& goal, const Goal* rest) {
  const Pattern::Node& node = *goal.node;
  const TaskId task = graph_.producer(goal.value);
  if (!task.valid() || !node.ops->contains(graph_.op(task))) return false;
  const auto outputs = graph_.outputs(task);
  if (node.output >= outputs.size() || outputs[node.output] != goal.value) return false;
  if (!attributes_fit(node, task)) return false;
  match_.tasks_.push_back(task);
  if (node.any_operands) return solve(rest);
  const auto inputs = graph_.inputs(task);
  for (size_t i = node.parts.size(); i < inputs.size(); ++i) {
    if (inputs[i].valid()) return false;
  }
  return fulfil_operands(goal, rest, false) || (node.commutative && fulfil_operands(goal, rest, true));
}

bool Matcher::fulfil_operands(const Goal& goal, const Goal* rest, bool swapped) {
  const std::vector<Pattern>& parts = goal.node->parts;
  const auto inputs = graph_.inputs(graph_.producer(goal.value));
  std::array<Goal, kMostOperandPatterns> goals;
  for (size_t i = parts.size(); i-- > 0;) {
    const size_t operand = swapped ? parts.size() - 1 - i : i;
    goals[i] = {&parts[i].node(), operand < inputs.size() ? inputs[operand] : ValueId(), rest};
    rest = &goals[i];
  }
  return solve(rest);
}

bool Matcher::fulfil_through(const Goal& goal, const Goal* rest) {
  const size_t before = match_.tasks_.size();
  std::array<ValueId, kMostThrough + 1> chain;
  chain[0] = goal.value;
  size_t last = 0;
  while (last < kMostThrough) {
    const TaskId task = graph_.producer(chain[last]);
    if (!task.valid() || !goal.node->ops->contains(graph_.op(task))) break;
    const auto inputs = graph_.inputs(task);
    if (inputs.empty() || !inputs[0].valid()) break;
    if (goal.node->exact && !keeps_numbers(graph_.type(inputs[0]).dtype, graph_.type(chain[last]).dtype)) break;
    match_.tasks_.push_back(task);
    chain[++last] = inputs[0];
  }
  steps_ += last;
  last_step_ += last;
  for (size_t past = last + 1; past-- > 0;) {
    match_.tasks_.resize(before + past);
    const Goal behind{&goal.node->parts[0].node(), chain[past], rest};
    if (solve(&behind)) return true;
  }
  return false;
}

bool Matcher::fulfil_either(const Goal& goal, const Goal* rest) {
  return std::any_of(goal.node->parts.begin(), goal.node->parts.end(), [&](const Pattern& part) {
    const Goal alternative{&part.node(), goal.value, rest};
    return solve(&alternative);
  });
}

bool Matcher::attributes_fit(const Pattern::Node& node, TaskId task) const {
  return std::all_of(node.attributes.begin(), node.attributes.end(), [&](const Pattern::Node::AttributeTest& test) {
    const Attribute* const found = graph_.attributes(task).find(test.name);
    return test.value ? found != nullptr && *found == *test.value : found == nullptr;
  });
}

bool Matcher::conditions_hold(const Pattern::Node& node) const {
  return std::all_of(node.conditions.begin(), node.conditions.end(),
                     [&](const Pattern::Condition& holds) { return holds(match_); });
}

bool Matcher::keep(Capture place, ValueId value) {
  if (place.number == Capture{}.number) return true;
  ValueId& kept = match_.places_[place.number];
  if (kept.valid()) return kept == value;
  kept = value;
  return true;
}

bool Matcher::is_read_once(ValueId value) const {
  if (!value.valid()) return true;
  TaskId reader;
  const bool several = graph_.any_use(value, [&](Graph::Use use) {
    if (!reader.valid()) reader = use.task;
    return use.task != reader;
  });
  return !several && !is_result(value);
}

bool Matcher::is_result(ValueId value) const {
  if (results_ != nullptr) return (*results_)[value.index()];
  bool found = false;
  for_each_result(graph_, [&](ValueId result) { found = found || result == value; });
  return found;
}

}  // namespace rannc::ir
