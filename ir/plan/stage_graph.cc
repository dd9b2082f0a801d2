// Copies the tasks of a stage and the leaves that they read.
#include "ir/plan/stage_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/graph/assumptions.h"
#include "ir/graph/rewriter.h"

namespace rannc::ir {

namespace {

bool contains(const std::vector<TaskId>& tasks, TaskId task) {
  return std::binary_search(tasks.begin(), tasks.end(), task);
}

/// Whether a graph output or loss numerator belongs to the stage.
bool makes(const Plan& plan, StageId stage, ValueId value) {
  const TaskId producer = plan.graph.producer(value);
  if (!producer.valid() || !contains(plan.stages[stage.index()].tasks, producer)) return false;
  if (!plan.atoms.constant[producer.index()]) return true;
  for (uint32_t earlier = 0; earlier < stage.index(); ++earlier) {
    if (contains(plan.stages[earlier].tasks, producer)) return false;
  }
  return true;
}

class StageCopy {
 public:
  StageCopy(const Graph& from, const std::vector<TaskId>& tasks)
      : from_(from), tasks_(tasks), rewriter_(from_, leaves()) {}

  StageGraph copy(const std::vector<StageOutput>& outputs, const std::vector<ValueId>& sources,
                  const std::vector<ValueId>& weights) && {
    Graph& graph = rewriter_.graph();
    for (const ValueId weight : weights) {
      const Graph::Value value = from_.value(weight);
      rewriter_.replace(weight, graph.add_value(ValueKind::kParameter, value.name, value.type));
    }
    add_inputs(weights);
    for (const ValueId source : sources) found_.sources.push_back(rewriter_.map(source));
    for (const TaskId task : tasks_) rewriter_.copy(task);
    for (const StageOutput& output : outputs) {
      graph.add_output(rewriter_.map(output.value));
      if (output.gradient) found_.returned.push_back(rewriter_.map(output.value));
    }
    drop_unknown_assumptions(graph);
    for (const Statistics& each : from_.statistics()) {
      if (!contains(tasks_, from_.producer(each.mean))) continue;
      graph.add_statistics({rewriter_.map(each.mean), rewriter_.map(each.variance), rewriter_.map(each.running_mean),
                            rewriter_.map(each.running_variance)});
    }
    for (auto* list : {&found_.returned, &found_.sources}) std::sort(list->begin(), list->end());
    found_.graph = std::move(graph);
    return std::move(found_);
  }

 private:
  /// Leaves that a task of the stage reads.
  std::vector<bool> leaves() const {
    std::vector<bool> read(from_.value_count());
    for (const TaskId task : tasks_) {
      for (const ValueId input : from_.inputs(task)) {
        if (input.valid()) read[input.index()] = true;
      }
    }
    return read;
  }

  void add_inputs(const std::vector<ValueId>& weights) {
    std::set<ValueId> inputs;
    for (const TaskId task : tasks_) {
      for (const ValueId input : from_.inputs(task)) {
        if (!input.valid() || std::binary_search(weights.begin(), weights.end(), input)) continue;
        const bool received = from_.kind(input) == ValueKind::kActivation && !contains(tasks_, from_.producer(input));
        if (received || from_.kind(input) == ValueKind::kInput) inputs.insert(input);
      }
    }
    Graph& graph = rewriter_.graph();
    for (const ValueId input : inputs) {
      if (!rewriter_.mapped(input)) {
        const Graph::Value value = from_.value(input);
        rewriter_.replace(input, graph.add_value(ValueKind::kInput, value.name, value.type));
      }
      graph.add_input(rewriter_.map(input));
    }
  }

  const Graph& from_;
  const std::vector<TaskId>& tasks_;
  Rewriter rewriter_;
  StageGraph found_;
};

}  // namespace

std::vector<StageOutput> stage_outputs(const Plan& plan, StageId stage) {
  std::map<ValueId, bool> outputs;
  for (const ValueId value : plan.graph.outputs()) {
    if (makes(plan, stage, value)) outputs[value] = false;
  }
  for (const LossTerm& term : plan.graph.losses()) {
    if (makes(plan, stage, term.numerator)) outputs[term.numerator] = true;
  }
  for (const Route& route : plan.routes) {
    if (route.from == stage) outputs[route.value] |= route.gradient;
  }
  std::vector<StageOutput> found;
  for (const auto& [value, gradient] : outputs) found.push_back({value, gradient});
  return found;
}

StageGraph stage_graph(const Graph& graph, const std::vector<TaskId>& tasks, const std::vector<StageOutput>& outputs,
                       const std::vector<ValueId>& sources, const std::vector<ValueId>& weights) {
  return StageCopy(graph, tasks).copy(outputs, sources, weights);
}

StageGraph stage_graph(const Plan& plan, StageId stage) {
  std::vector<StageOutput> outputs = stage_outputs(plan, stage);
  for (StageOutput& output : outputs) output.gradient = output.gradient && plan.training;
  std::vector<ValueId> sources;
  for (const Route& route : plan.routes) {
    if (route.to == stage && route.gradient) sources.push_back(route.value);
  }
  StageGraph made = stage_graph(plan.graph, plan.stages[stage.index()].tasks, outputs, sources);
  made.device = device_type(plan);
  for (const ValueId value : made.graph.values()) {
    if (made.graph.value(value).data.present()) made.graph.set_data(value, {});
  }
  return made;
}

}  // namespace rannc::ir
