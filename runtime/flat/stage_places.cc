// Finds a stage's weights, inputs and outputs in its joint graph by name.
#include "runtime/flat/stage_places.h"

#include <algorithm>
#include <map>

#include "ir/op/op.h"
#include "ir/state/statistics.h"

namespace rannc::runtime {

namespace {

using Ids = std::vector<ValueId>;

template <class Items>
Ids named(const ir::Graph& graph, const Items& items) {
  Ids found;
  for (const auto& item : items) found.push_back(graph.find(item.name));
  return found;
}

}  // namespace

StagePlaces places_of(const Signature& signature, const ir::Joint& joint, const std::vector<TaskId>& tasks) {
  const ir::Graph& graph = joint.graph;
  StagePlaces found;
  found.inputs = named(graph, signature.inputs);
  found.outputs = named(graph, signature.outputs);
  found.parameters = named(graph, signature.parameters);
  found.buffers = named(graph, signature.buffers);
  found.constants = named(graph, signature.constants);
  found.random_inputs = named(graph, signature.random_inputs);
  for (const ir::Statistics& each : graph.statistics()) {
    found.moments.push_back(each.mean);
    found.moments.push_back(each.variance);
  }
  for (const ValueId input : found.inputs) {
    const auto at = std::find_if(joint.inputs.begin(), joint.inputs.end(),
                                 [&](const ir::Joint::BorderGradient& each) { return each.value == input; });
    found.input_gradients.emplace_back();
    if (at != joint.inputs.end()) found.input_gradients.back() = static_cast<size_t>(at - joint.inputs.begin());
  }
  found.sum_count = static_cast<uint32_t>(signature.leaves.size());
  std::map<std::pair<ValueId, TaskId>, uint32_t> leaves;
  for (uint32_t i = 0; i < found.sum_count; ++i) {
    leaves[{found.parameters[signature.leaves[i].parameter], signature.leaves[i].task}] = i;
  }
  for (const auto& part : joint.gradients) {
    found.sums.push_back(leaves.at({part.parameter, tasks[part.reader.index()]}));
  }
  std::map<uint32_t, size_t> bucket_of;  // by parameter
  for (size_t i = 0; i < signature.buckets.size(); ++i) {
    for (const uint32_t parameter : signature.buckets[i]) bucket_of[parameter] = i;
  }
  found.buckets.resize(signature.buckets.size());
  for (uint32_t i = 0; i < joint.gradients.size(); ++i) {
    const auto bucket = bucket_of.find(signature.leaves[found.sums[i]].parameter);
    if (bucket != bucket_of.end()) found.buckets[bucket->second].push_back(i);
  }
  return found;
}

std::map<TaskId, size_t> replica_sums(const ir::Joint& joint) {
  static const ir::OpInfo& of_input = ir::core("batch_norm_grad_input");
  std::map<TaskId, size_t> forward;
  size_t number = 0;
  for (uint32_t i = 0; i < joint.forward_count(); ++i) {
    const auto synchronised = ir::synchronised(joint.graph, TaskId(i));
    if (!synchronised) continue;
    if (*synchronised) forward[TaskId(i)] = number;
    ++number;
  }
  std::map<TaskId, size_t> found = forward;
  for (const TaskId task : joint.graph.tasks()) {
    const ir::Joint::Origin& origin = joint.origins[task.index()];
    const auto of = forward.find(origin.task);
    if (origin.phase == ir::Phase::kForward || of == forward.end()) continue;
    if (&joint.graph.op(task) == &of_input) found[task] = of->second;
  }
  return found;
}

}  // namespace rannc::runtime
