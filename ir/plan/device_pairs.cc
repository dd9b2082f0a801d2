#include "ir/plan/device_pairs.h"

#include <algorithm>
#include <set>
#include <span>

#include "ir/plan/plan.h"
#include "ir/schedule/dependencies.h"
#include "ir/state/statistics.h"

namespace rannc::ir {

DevicePairs message_pairs(const Plan& plan) {
  std::set<std::pair<DeviceId, DeviceId>> pairs;
  for (size_t device = 0; device < plan.schedule.rows.size(); ++device) {
    for (const Action& action : plan.schedule.rows[device]) {
      if (is_send(action.kind)) pairs.emplace(DeviceId::from(device), action.peer);
    }
  }
  return {pairs.begin(), pairs.end()};
}

namespace {

void add_pairs(std::span<const DeviceId> members, std::set<std::pair<DeviceId, DeviceId>>& pairs) {
  for (const DeviceId from : members) {
    for (const DeviceId to : members) {
      if (from != to) pairs.emplace(from, to);
    }
  }
}

}  // namespace

DevicePairs sum_pairs(const Plan& plan) {
  std::set<std::pair<DeviceId, DeviceId>> pairs;
  if (!plan.training) return {};
  const PipelineShape shape = pipeline_shape(plan);
  const Dependencies dependencies(shape);
  for (const StageShape& stage : shape.stages) add_pairs(stage.devices, pairs);
  for (const auto& row : plan.schedule.rows) {
    for (const Action& action : row) {
      if (is_of_group(action.kind)) add_pairs(dependencies.members(action), pairs);
    }
  }
  return {pairs.begin(), pairs.end()};
}

DevicePairs pass_sum_pairs(const Plan& plan) {
  std::set<std::pair<DeviceId, DeviceId>> pairs;
  if (!plan.training) return {};
  for (const Stage& stage : plan.stages) {
    const auto sums = [&](TaskId task) { return synchronised(plan.graph, task).value_or(false); };
    if (std::any_of(stage.tasks.begin(), stage.tasks.end(), sums)) add_pairs(stage.devices, pairs);
  }
  return {pairs.begin(), pairs.end()};
}

}  // namespace rannc::ir
