#include "ir/plan/device_pairs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/plan/plan.h"
#include "ir/schedule/dependencies.h"
#include "ir/state/statistics.h"

namespace rannc::ir {

namespace {

/// Groups of devices of which each exchanges data with each other one. Many actions have the same.
using Groups = std::set<std::vector<DeviceId>>;

DevicePairs sorted(DevicePairs pairs) {
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

DevicePairs pairs_within(const Groups& groups) {
  DevicePairs pairs;
  for (const std::vector<DeviceId>& group : groups) {
    for (const DeviceId from : group) {
      for (const DeviceId to : group) {
        if (from != to) pairs.emplace_back(from, to);
      }
    }
  }
  return sorted(std::move(pairs));
}

}  // namespace

DevicePairs message_pairs(const Plan& plan) {
  DevicePairs pairs;
  for (size_t device = 0; device < plan.schedule.rows.size(); ++device) {
    for (const Action& action : plan.schedule.rows[device]) {
      if (is_send(action.kind)) pairs.emplace_back(DeviceId::from(device), action.peer);
    }
  }
  return sorted(std::move(pairs));
}

DevicePairs sum_pairs(const Plan& plan) {
  if (!plan.training) return {};
  Groups groups;
  const PipelineShape shape = pipeline_shape(plan);
  const Dependencies dependencies(shape);
  for (const StageShape& stage : shape.stages) groups.insert(stage.devices);
  for (const auto& row : plan.schedule.rows) {
    for (const Action& action : row) {
      if (is_of_group(action.kind)) groups.insert(dependencies.members(action));
    }
  }
  return pairs_within(groups);
}

DevicePairs pass_sum_pairs(const Plan& plan) {
  if (!plan.training) return {};
  Groups groups;
  for (const Stage& stage : plan.stages) {
    const auto sums = [&](TaskId task) { return synchronised(plan.graph, task).value_or(false); };
    if (std::any_of(stage.tasks.begin(), stage.tasks.end(), sums)) groups.insert(stage.devices);
  }
  return pairs_within(groups);
}

}  // namespace rannc::ir
