#include "ir/rewriter.h"

#include <algorithm>

#include "ir/op.h"

namespace rannc::ir {

Rewriter::Rewriter(const Graph& from) : Rewriter(from, std::vector<bool>(from.value_count(), true)) {}

Rewriter::Rewriter(const Graph& from, const std::vector<bool>& keep) : from_(from), map_(from.value_count()) {
  to_.set_name(from.name());
  to_.set_batch_symbol(from.batch_symbol());
  for (const ValueId id : from.values()) {
    const Graph::Value& value = from.value(id);
    if (keep[id.index()] && !value.producer.valid()) {
      map_[id.index()] = to_.add_value(value.kind, value.name, value.type, value.data);
    }
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
  std::vector<ValueId> operands;
  for (const ValueId input : from_.inputs(old)) operands.push_back(map(input));
  std::vector<std::string> names;
  for (const ValueId output : from_.outputs(old)) names.emplace_back(from_.value(output).name);
  const OpInfo& op = from_.op(old);
  const OpInfo& target = op.known() ? op : to_.foreign_op(op.name);
  const TaskId task = to_.add_task(target, operands, from_.attributes(old), names, from_.location(old));
  for (size_t i = 0; i < names.size(); ++i) {
    const ValueId output = to_.outputs(task)[i];
    to_.set_type(output, from_.type(from_.outputs(old)[i]));
    map_[from_.outputs(old)[i].index()] = output;
  }
  return task;
}

Graph Rewriter::finish() && {
  for (const ValueId input : from_.inputs()) to_.add_input(map(input));
  for (const ValueId output : from_.outputs()) to_.add_output(map(output));
  for (LossTerm term : from_.losses()) {
    term.numerator = map(term.numerator);
    term.labels = map(term.labels);
    to_.add_loss(term);
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
  for (const ValueId id : graph.inputs()) mark(id);
  for (const ValueId id : graph.outputs()) mark(id);
  for (const LossTerm& term : graph.losses()) {
    mark(term.numerator);
    mark(term.labels);
  }
  for (uint32_t i = graph.task_count(); i-- > 0;) {
    const TaskId task(i);
    bool needed = graph.op(task).effect == Effect::kStatistics;
    for (const ValueId output : graph.outputs(task)) needed = needed || live.value[output.index()];
    if (!needed) continue;
    live.task[i] = true;
    for (const ValueId input : graph.inputs(task)) mark(input);
    for (const ValueId output : graph.outputs(task)) mark(output);
  }
  return live;
}

}  // namespace

bool remove_dead(Graph& graph) {
  const Liveness live = find_live(graph);
  const auto all = [](const std::vector<bool>& bits) { return std::find(bits.begin(), bits.end(), false) == bits.end(); };
  if (all(live.task) && all(live.value)) return false;
  Rewriter rewriter(graph, live.value);
  for (const TaskId task : graph.tasks()) {
    if (live.task[task.index()]) rewriter.copy(task);
  }
  graph = std::move(rewriter).finish();
  return true;
}

}  // namespace rannc::ir
