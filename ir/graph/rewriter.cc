#include "ir/graph/rewriter.h"

#include <algorithm>

#include "ir/graph/results.h"
#include "ir/op/op.h"

namespace rannc::ir {

Rewriter::Rewriter(const Graph& from) : Rewriter(from, std::vector<bool>(from.value_count(), true)) {}

Rewriter::Rewriter(const Graph& from, const std::vector<bool>& keep)
    : from_(from), to_(from.without_content()), map_(from.value_count()) {
  to_.values_.reserve(from.values_.size());
  to_.tasks_.reserve(from.tasks_.size());
  to_.value_names_.reserve(from.values_.size());
  for (const ValueId id : from.values()) {
    if (keep[id.index()] && !from.value(id).producer.valid()) map_[id.index()] = to_.copy_value(from, id);
  }
}

ValueId Rewriter::map(ValueId old) const {
  if (!old.valid()) return old;
  RANNC_CHECK(mapped(old)) << "value %" << from_.value(old).name << " has no counterpart yet";
  return map_[old.index()];
}

bool Rewriter::mapped(ValueId old) const { return map_[old.index()].valid(); }

void Rewriter::replace(ValueId old, ValueId by) { map_[old.index()] = by; }

TaskId Rewriter::copy(TaskId old) {
  operands_.clear();
  for (const ValueId input : from_.inputs(old)) operands_.push_back(map(input));
  return copy(old, operands_);
}

TaskId Rewriter::copy(TaskId old, std::span<const ValueId> operands) {
  const TaskId task = to_.copy_task(from_, old, operands);
  for (const ValueId output : from_.outputs(old)) {
    map_[output.index()] = to_.outputs(task)[from_.value(output).output_index];
  }
  return task;
}

Graph Rewriter::finish() && {
  for (const ValueId input : from_.inputs()) to_.add_input(map(input));
  for (const ValueId output : from_.outputs()) to_.add_output(map(output));
  for (LossTerm term : from_.losses()) {
    term.numerator = map(term.numerator);
    to_.add_loss(term);
  }
  Totals totals = from_.totals();
  for (Totals::Given& given : totals.given) given.input = map(given.input);
  for (ValueId& sum : totals.sums) sum = map(sum);
  to_.set_totals(std::move(totals));
  for (const Statistics& each : from_.statistics()) {
    to_.add_statistics({map(each.mean), map(each.variance), map(each.running_mean), map(each.running_variance)});
  }
  for (StateTensor tensor : from_.state()) {
    const auto lost = [&](const StatePart& part) { return !mapped(part.value); };
    if (std::any_of(tensor.parts.begin(), tensor.parts.end(), lost)) continue;
    for (StatePart& part : tensor.parts) part.value = map(part.value);
    to_.add_state(std::move(tensor));
  }
  return std::move(to_);
}

namespace {

struct Liveness {
  std::vector<bool> task, value;
};

Liveness find_live(const Graph& graph) {
  Liveness live{std::vector<bool>(graph.task_count()), std::vector<bool>(graph.value_count())};
  auto mark = [&](ValueId id) {
    if (id.valid()) live.value[id.index()] = true;
  };
  for_each_kept(graph, mark);
  for (uint32_t i = graph.task_count(); i-- > 0;) {
    const TaskId task(i);
    bool needed = false;
    for (const ValueId output : graph.outputs(task)) needed = needed || live.value[output.index()];
    if (!needed) continue;
    live.task[i] = true;
    for (const ValueId input : graph.inputs(task)) mark(input);
    for (const ValueId output : graph.outputs(task)) mark(output);
  }
  return live;
}

/// Turns parameters that only the state refers to into constants. Returns whether there were any.
bool freeze_unread(Graph& graph) {
  const std::vector<bool> result = results_of(graph);
  bool found = false;
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ValueKind::kParameter || graph.has_uses(value) || result[value.index()]) continue;
    graph.set_kind(value, ValueKind::kConstant);
    found = true;
  }
  return found;
}

}  // namespace

bool remove_dead(Graph& graph) {
  const Liveness live = find_live(graph);
  const auto all = [](const std::vector<bool>& bits) {
    return std::find(bits.begin(), bits.end(), false) == bits.end();
  };
  if (all(live.task) && all(live.value)) return freeze_unread(graph);
  Rewriter rewriter(graph, live.value);
  for (const TaskId task : graph.tasks()) {
    if (live.task[task.index()]) rewriter.copy(task);
  }
  graph = std::move(rewriter).finish();
  freeze_unread(graph);
  return true;
}

}  // namespace rannc::ir
