#include "partition/model/given_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace rannc::partition {

namespace {

std::vector<uint32_t> stages_of_atoms(const ir::Plan& plan) {
  std::vector<uint32_t> stages(plan.atoms.tasks.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const TaskId task : plan.stages[s].tasks) {
      const AtomId atom = plan.atoms.atom_of[task.index()];
      if (atom.valid()) stages[atom.index()] = static_cast<uint32_t>(s);
    }
  }
  return stages;
}

/// Stages share all devices or none (`places_of`).
Result<void> check_devices(const ir::Plan& plan, const std::string& file) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const std::set<DeviceId> own(plan.stages[s].devices.begin(), plan.stages[s].devices.end());
    for (size_t t = 0; t < s; ++t) {
      const std::vector<DeviceId>& others = plan.stages[t].devices;
      const auto shared = std::count_if(others.begin(), others.end(), [&](DeviceId d) { return own.contains(d); });
      if (shared == 0 || (own.size() == others.size() && static_cast<size_t>(shared) == own.size())) continue;
      return error({.file = file},
                   fmt::format("stages @s{} and @s{} share some of their devices: they may share all or none", t, s));
    }
  }
  return {};
}

/// Blocks by (stage, number in the plan).
std::vector<uint32_t> blocks_of_atoms(const ir::Plan& plan, const std::vector<uint32_t>& stages) {
  const bool all = plan.block_of.size() == stages.size() &&
                   std::all_of(plan.block_of.begin(), plan.block_of.end(), [](BlockId id) { return id.valid(); });
  std::map<std::pair<uint32_t, BlockId>, uint32_t> numbers;
  std::map<BlockId, uint32_t> stage_of;
  bool whole = all;
  for (size_t atom = 0; atom < stages.size() && whole; ++atom) {
    numbers.emplace(std::pair(stages[atom], plan.block_of[atom]), 0);
    whole = stage_of.emplace(plan.block_of[atom], stages[atom]).first->second == stages[atom];
  }
  if (!whole) return stages;
  uint32_t next = 0;
  for (auto& [block, number] : numbers) number = next++;
  std::vector<uint32_t> blocks;
  blocks.reserve(stages.size());
  for (size_t atom = 0; atom < stages.size(); ++atom)
    blocks.push_back(numbers.at(std::pair(stages[atom], plan.block_of[atom])));
  return blocks;
}

/// Not valid if the cluster has no device of that name.
Result<DeviceId> device_of(const ir::PlanDevice& device, const Cluster& cluster, const std::string& file) {
  for (uint32_t d = 0; d < cluster.size(); ++d) {
    if (cluster.devices[d].name != device.name) continue;
    const std::string& kind = cluster.kind_of(DeviceId(d)).name;
    if (kind == device.kind) return DeviceId(d);
    return error({.file = file}, fmt::format("device \"{}\" of the plan is of kind {}, in cluster '{}' of kind {}",
                                             device.name, device.kind, cluster.name, kind));
  }
  return DeviceId();
}

}  // namespace

Result<GivenPlan> last_plan(const ir::PlanDraft& draft, const Cluster& cluster, const std::string& file) {
  const ir::Plan& plan = draft.plan;
  GivenPlan given;
  for (const ir::PlanDevice& device : plan.devices) {
    RANNC_ASSIGN(given.now.emplace_back(), device_of(device, cluster, file));
  }
  for (const ir::Stage& stage : plan.stages) {
    GivenPlan::Stage& made = given.stages.emplace_back();
    made.recompute = stage.recompute;
    made.sharded = stage.sharded;
    made.devices = stage.devices;
  }
  given.stage_of_atom = stages_of_atoms(plan);
  RANNC_TRY(check_devices(plan, file));
  given.block_of_atom = blocks_of_atoms(plan, given.stage_of_atom);
  given.micro_batches = plan.micro_batches.size();
  given.planner = plan.planner;
  given.schedule = draft.schedule;
  given.computations = draft.computations;
  given.file = file;
  return given;
}

Result<GivenPlan> given_plan(const ir::PlanDraft& draft, const Cluster& cluster, const std::string& file) {
  RANNC_ASSIGN(GivenPlan given, last_plan(draft, cluster, file));
  const std::vector<DeviceId> now = std::exchange(given.now, {});
  for (size_t d = 0; d < now.size(); ++d) {
    if (now[d].valid()) continue;
    return error({.file = file},
                 fmt::format("cluster '{}' has no device \"{}\"", cluster.name, draft.plan.devices[d].name));
  }
  for (GivenPlan::Stage& stage : given.stages) {
    for (DeviceId& device : stage.devices) device = now[device.index()];
  }
  return given;
}

}  // namespace rannc::partition
