// Derives a stage's arguments and results from the plan.
#include "runtime/execute/signature.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/graph/memory_format.h"
#include "ir/graph/results.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/plan/stage_graph.h"
#include "ir/state/statistics.h"

namespace rannc::runtime {
namespace {

template <class Items>
int index_of(const Items& items, ValueId value) {
  const auto it = std::lower_bound(items.begin(), items.end(), value,
                                   [](const auto& item, ValueId wanted) { return item.value < wanted; });
  return it != items.end() && it->value == value ? static_cast<int>(it - items.begin()) : -1;
}

std::set<std::string> input_symbols(const ir::Graph& graph) {
  std::set<std::string> symbols;
  for (ValueId input : graph.inputs()) {
    if (!graph.type(input).shape) continue;
    for (const ir::Dim& dim : *graph.type(input).shape) dim.collect_symbols(symbols);
  }
  if (!graph.batch_symbol().empty()) symbols.insert(graph.batch_symbol());
  return symbols;
}

class Builder {
 public:
  Builder(const ir::Plan& plan, StageId stage)
      : plan_(plan), graph_(plan.graph), stage_(stage), channels_last_(ir::channels_last(plan.graph)) {
    signature_.stage = stage;
    in_stage_.assign(graph_.task_count(), false);
    for (TaskId task : plan.stages[stage.index()].tasks) in_stage_[task.index()] = true;
  }

  Signature build() && {
    for (TaskId task : plan_.stages[stage_.index()].tasks) {
      for (ValueId value : graph_.inputs(task)) {
        if (value.valid()) read(value, task);
      }
      if (const auto joint = ir::synchronised(graph_, task)) signature_.synchronised.push_back(*joint);
    }
    add_inputs();
    add_weights();
    add_random_inputs();
    add_outputs();
    for (const ir::Statistics& statistics : graph_.statistics()) {
      if (in_stage_[graph_.producer(statistics.mean).index()]) add(statistics);
    }
    const std::set<std::string> symbols = input_symbols(graph_);
    signature_.batch_symbol = graph_.batch_symbol();
    signature_.symbols.assign(symbols.begin(), symbols.end());
    return std::move(signature_);
  }

 private:
  void read(ValueId value, TaskId task) {
    switch (graph_.value(value).kind) {
      case ir::ValueKind::kParameter:
        parameters_[value].insert(task);
        return;
      case ir::ValueKind::kBuffer:
      case ir::ValueKind::kConstant:
        fixed_.insert(value);
        return;
      case ir::ValueKind::kRandomInput:
        random_inputs_.insert(value);
        return;
      case ir::ValueKind::kInput:
        inputs_.insert(value);
        return;
      case ir::ValueKind::kActivation:
        if (!in_stage_[graph_.value(value).producer.index()]) inputs_.insert(value);
        return;
    }
  }

  Port port(ValueId value) const {
    const ir::Graph::Value& v = graph_.value(value);
    return {value, std::string(v.name), v.type, v.kind == ir::ValueKind::kInput, false, channels_last_[value.index()]};
  }
  Weight weight(ValueId value) const { return {value, std::string(graph_.value(value).name), graph_.type(value)}; }

  void add_inputs() {
    for (ValueId value : inputs_) signature_.inputs.push_back(port(value));
    for (const ir::Route& route : plan_.routes) {
      if (route.to != stage_) continue;
      const int index = index_of(signature_.inputs, route.value);
      if (index >= 0) signature_.inputs[static_cast<size_t>(index)].gradient = route.gradient;
    }
  }

  void add_random_inputs() {
    const std::vector<bool> results = ir::results_of(graph_);
    for (ValueId value : random_inputs_) {
      const ir::Graph::Value& random = graph_.value(value);
      const bool only_scales = !results[value.index()] && scales(value);
      signature_.random_inputs.push_back(
          {value, std::string(random.name), random.type, *graph_.random_input(value), only_scales});
    }
  }

  // Other readers than products, and products that broadcast, need every element.
  bool scales(ValueId random) const {
    static const ir::Ops kProduct = "mul";
    return !graph_.any_use(random, [&](const ir::Graph::Use& use) {
      if (!kProduct.contains(graph_.op(use.task))) return true;
      const ValueId other = graph_.inputs(use.task)[1 - use.operand];
      return other == random || graph_.type(other).shape != graph_.type(random).shape;
    });
  }

  void add_weights() {
    for (const auto& [value, tasks] : parameters_) {
      const auto index = static_cast<uint32_t>(signature_.parameters.size());
      signature_.parameters.push_back(weight(value));
      for (TaskId task : tasks) signature_.leaves.push_back({index, task});
    }
    for (const std::vector<ValueId>& bucket : plan_.stages[stage_.index()].buckets) {
      std::vector<uint32_t>& indices = signature_.buckets.emplace_back();
      for (const ValueId parameter : bucket)
        indices.push_back(static_cast<uint32_t>(signature_.parameter_of(parameter)));
    }
    for (ValueId value : fixed_) {
      const bool buffer = graph_.value(value).kind == ir::ValueKind::kBuffer;
      (buffer ? signature_.buffers : signature_.constants).push_back(weight(value));
    }
  }

  /// The task that makes them reads the buffers.
  void add(const ir::Statistics& statistics) {
    const auto mean = static_cast<uint32_t>(index_of(signature_.buffers, statistics.running_mean));
    const auto variance = static_cast<uint32_t>(index_of(signature_.buffers, statistics.running_variance));
    signature_.statistics.push_back({statistics.mean, statistics.variance, mean, variance,
                                     *ir::momentum_of(graph_, statistics), *ir::averaged_over(graph_, statistics)});
  }

  void add_outputs() {
    for (const ir::StageOutput& output : ir::stage_outputs(plan_, stage_)) {
      signature_.outputs.push_back(port(output.value));
      signature_.outputs.back().gradient = output.gradient;
    }
  }

  const ir::Plan& plan_;
  const ir::Graph& graph_;
  StageId stage_;
  std::vector<bool> in_stage_;
  std::vector<bool> channels_last_;  // by value
  std::set<ValueId> inputs_, fixed_, random_inputs_;
  std::map<ValueId, std::set<TaskId>> parameters_;
  Signature signature_;
};

}  // namespace

int Signature::input_of(ValueId value) const { return index_of(inputs, value); }
int Signature::output_of(ValueId value) const { return index_of(outputs, value); }
int Signature::parameter_of(ValueId value) const { return index_of(parameters, value); }

Signature signature(const ir::Plan& plan, StageId stage) { return Builder(plan, stage).build(); }

}  // namespace rannc::runtime
