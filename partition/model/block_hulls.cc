#include "partition/model/block_hulls.h"

#include <algorithm>
#include <map>

#include "ir/graph/views.h"
#include "ir/plan/functions.h"
#include "partition/model/finish_plan.h"
#include "partition/model/stage_pricer.h"
#include "partition/schedule/family.h"

namespace rannc::partition {

namespace {

/// Makes memory that crosses the border of a block free. Returns the bytes of what the block sends, each memory once.
int64_t free_border(const ir::Joint& joint, ir::RecomputeCosts& costs) {
  const ir::Graph& graph = joint.graph;
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) == ir::ValueKind::kInput) costs.bytes[value.index()] = 0;
  }
  const ir::Views views(graph);
  int64_t sent = 0;
  for (const ir::Joint::BorderGradient& output : joint.outputs) {
    sent += std::exchange(costs.bytes[views.base(output.value).index()], 0);
  }
  return sent;
}

/// Returns the points of a block that sends that much, for these samples.
std::vector<RebuildPoint> points_of(const std::vector<ir::KeptChoice>& choices, int64_t sent_bytes, double forward_ns,
                                    uint64_t samples) {
  std::vector<RebuildPoint> points;
  for (const ir::KeptChoice& choice : choices) {
    RebuildPoint point{static_cast<double>(choice.kept_bytes + sent_bytes) / static_cast<double>(samples), 0};
    if (forward_ns > 0) point.share = std::min(1.0, static_cast<double>(choice.recompute_ns) / forward_ns);
    const bool helps = points.empty() ||
                       (point.bytes_per_sample > points.back().bytes_per_sample && point.share < points.back().share);
    if (helps) points.push_back(point);
  }
  return points;
}

/// Describes a block up to the numbers of its tasks in the model. Blocks of equal keys have equal hulls: gradients
/// follow from the forward tasks and from the values that have one.
std::vector<int64_t> key_of(const ir::Plan& plan, StageId block, const ir::RecomputeCosts& costs) {
  const ir::Joint& joint = plan.functions[block.index()]->joint;
  const ir::Graph& graph = joint.graph;
  std::vector<int64_t> key;
  const auto add_all = [&key](const auto& values) {
    key.push_back(static_cast<int64_t>(values.size()));
    for (const ValueId value : values) key.push_back(value.valid() ? static_cast<int64_t>(value.index()) : -1);
  };
  for (const TaskId task : graph.tasks()) {
    const ir::Joint::Origin& origin = joint.origins[task.index()];
    const TaskId of_model = plan.stages[block.index()].tasks[origin.task.index()];
    key.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(&graph.op(task))));
    key.push_back(static_cast<int64_t>(plan.graph.attributes_number(of_model)));
    key.push_back(static_cast<int64_t>(origin.phase));
    add_all(graph.inputs(task));
    add_all(graph.outputs(task));
  }
  for (const ValueId value : graph.values()) key.push_back(static_cast<int64_t>(graph.kind(value)));
  for (const auto* numbers : {&costs.bytes, &costs.forward_ns, &costs.random_ns}) {
    key.insert(key.end(), numbers->begin(), numbers->end());
  }
  return key;
}

}  // namespace

bool may_recompute_in_part(const PlanOptions& options) {
  return options.training && options.recompute == RecomputeRule::kChoose && options.recompute_choices &&
         !schedule_needs(options.schedule, ScheduleFamily::Needs::kTable);
}

std::vector<std::vector<RebuildPoint>> block_hulls(const ModelFacts& model, const BlockPartition& blocks,
                                                   uint64_t samples, const PlanOptions& options) {
  StagePlan apart;
  apart.micro_batches = std::max<uint64_t>(1, options.mini_batch / samples);
  for (uint32_t b = 0; b < blocks.count; ++b) apart.stages.push_back({b, b + 1, {DeviceId(0)}, true});
  const Result<ir::Plan> cut = cut_plan(model, blocks.block_of, apart, options);
  if (!cut.ok()) return {};  // `finish_plan` reports why stages have no functions
  const ir::Plan& plan = *cut;
  const StagePricer pricer(model, options, apart);
  const uint64_t at_once = plan.micro_batches.front();
  std::map<std::vector<int64_t>, std::vector<RebuildPoint>> known;
  std::vector<std::vector<RebuildPoint>> hulls;
  for (uint32_t b = 0; b < blocks.count; ++b) {
    const ir::Joint& joint = plan.functions[b]->joint;
    ir::RecomputeCosts costs = pricer.recompute_costs(plan, StageId(b));
    const int64_t sent = free_border(joint, costs);
    std::vector<int64_t> key = key_of(plan, StageId(b), costs);
    key.push_back(sent);
    const auto [entry, fresh] = known.try_emplace(std::move(key));
    if (fresh) {
      double forward = 0;
      for (uint32_t i = 0; i < joint.forward_count(); ++i) forward += static_cast<double>(costs.forward_ns[i]);
      entry->second = points_of(options.recompute_choices(joint, costs), sent, forward, at_once);
    }
    hulls.push_back(entry->second);
  }
  return hulls;
}

}  // namespace rannc::partition
