// Validates problems before and plans after every planner.
#include "partition/stages/planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "partition/stages/bounds/bounds.h"
#include "partition/stages/pricing/prices.h"
#include "partition/stages/problem/places.h"

namespace rannc::partition {
namespace {

Diagnostic broken(const char* rule, std::string message) { return error({}, std::move(message), rule); }

Result<void> covers_blocks(const StageProblem& problem, const StagePlan& plan) {
  uint32_t at = 0;
  for (const PlannedStage& stage : plan.stages) {
    if (stage.first != at || stage.end <= stage.first) {
      return broken("V1",
                    fmt::format("a stage holds blocks [{}, {}), it must start at {}", stage.first, stage.end, at));
    }
    at = stage.end;
  }
  if (at != problem.blocks) return broken("V1", fmt::format("blocks from {} on are in no stage", at));
  return {};
}

Result<void> devices_are_distinct(const StageProblem& problem, const StagePlan& plan) {
  std::vector<const PlannedStage*> first(problem.cluster.size(), nullptr);  // the first stage of each device
  for (const PlannedStage& stage : plan.stages) {
    if (stage.devices.empty()) return broken("V2", fmt::format("stage [{}, {}) has no device", stage.first, stage.end));
    for (const DeviceId device : stage.devices) {
      if (device.index() >= first.size()) {
        return broken("V2", fmt::format("device {} of a cluster of {}", device.index(), first.size()));
      }
      const PlannedStage*& known = first[device.index()];
      if (known == &stage) return broken("V2", fmt::format("device {} is assigned twice", device.index()));
      if (known == nullptr) known = &stage;
      if (known->devices == stage.devices) continue;
      return broken("V2", fmt::format("device {} is assigned twice: stages [{}, {}) and [{}, {}) share it, but not all "
                                      "of their devices",
                                      device.index(), known->first, known->end, stage.first, stage.end));
    }
  }
  return {};
}

Result<void> devices_are_shared_as_requested(const StageProblem& problem, const StagePlan& plan) {
  if (!problem.constraints.stages_per_device) return {};
  const uint32_t found = places_of(plan).most_stages(), wanted = *problem.constraints.stages_per_device;
  if (found == wanted) return {};
  return broken("V4", fmt::format("{} stages per device were requested, the plan has {}", wanted, found));
}

Result<void> constraints_hold(const StageProblem& problem, const StagePlan& plan) {
  const StageConstraints& given = problem.constraints;
  const size_t count = plan.stages.size();
  if (given.stages && count != *given.stages) {
    return broken("V4", fmt::format("{} stages were requested, the plan has {}", *given.stages, count));
  }
  if (given.max_stages && count > *given.max_stages) {
    return broken("V4", fmt::format("at most {} stages were requested, the plan has {}", *given.max_stages, count));
  }
  for (size_t s = 0; s < count; ++s) {
    if (std::binary_search(given.forbidden_cuts.begin(), given.forbidden_cuts.end(), plan.stages[s].first)) {
      return broken("V4", fmt::format("cut {} is forbidden", plan.stages[s].first));
    }
    if (!given.replicas.empty() && plan.stages[s].devices.size() != given.replicas[s]) {
      return broken("V4", fmt::format("stage {} has {} replicas, {} were requested", s, plan.stages[s].devices.size(),
                                      given.replicas[s]));
    }
  }
  for (const StagePin& pin : given.pins) {
    const PlannedStage& stage = plan.stages[pin.stage];
    if (pin.block < stage.first || pin.block >= stage.end) {
      return broken("V4", fmt::format("block {} is pinned to stage {}, which holds blocks {} to {}", pin.block,
                                      pin.stage, stage.first, stage.end - 1));
    }
  }
  return devices_are_shared_as_requested(problem, plan);
}

Result<void> memory_suffices(const StageProblem& problem, const StagePlan& plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const DeviceId device : plan.stages[s].devices) {
      if (plan.stages[s].peak_bytes > memory_of(problem, device) * (1 + 1e-9)) {
        return broken("V5", fmt::format("stage {} holds {:.0f} bytes, device {} offers {:.0f}", s,
                                        plan.stages[s].peak_bytes, device.index(), memory_of(problem, device)));
      }
    }
  }
  return {};
}

// Detects problems that no search can solve, before any planner starts.
std::optional<Infeasible> too_many_stages(const StageProblem& problem, uint32_t tried) {
  if (!problem.constraints.stages) return std::nullopt;
  const uint64_t per_device = problem.constraints.stages_per_device.value_or(tried);
  const uint64_t most = std::min<uint64_t>(problem.blocks, problem.cluster.size() * per_device);
  if (*problem.constraints.stages <= most) return std::nullopt;
  return Infeasible{fmt::format("{} stages were requested; {} blocks on {} devices allow at most {}",
                                *problem.constraints.stages, problem.blocks, problem.cluster.size(), most),
                    0, "request fewer stages, or use more devices or more blocks"};
}

StageProblem monotone(StageProblem problem) {
  for (TimeTable& table : problem.times) table.make_monotone();
  return problem;
}

}  // namespace

Result<void> verify_plan(const StageProblem& problem, const StagePlan& plan) {
  RANNC_TRY(covers_blocks(problem, plan));
  RANNC_TRY(devices_are_distinct(problem, plan));
  if (plan.micro_batches == 0 || plan.micro_batches > problem.mini_batch) {
    return broken("V3", fmt::format("{} micro-batches of {} samples", plan.micro_batches, problem.mini_batch));
  }
  const uint64_t largest = (problem.mini_batch + plan.micro_batches - 1) / plan.micro_batches;
  for (const PlannedStage& stage : plan.stages) {
    if (stage.devices.size() > largest) {
      return broken("V3", fmt::format("{} replicas share a micro-batch of {} samples", stage.devices.size(), largest));
    }
  }
  RANNC_TRY(constraints_hold(problem, plan));
  return memory_suffices(problem, plan);
}

Result<StageOutcome> StagePlanner::plan(const StageProblem& problem, std::stop_token stop) const {
  RANNC_TRY(validate(problem));
  const StageProblem times_in_order = monotone(problem);
  RANNC_ASSIGN(StageOutcome outcome, verified(times_in_order, stop));
  if (auto* found = std::get_if<StagePlan>(&outcome); found && found->bound_name.empty()) {
    BoundEffort effort{.enough = found->objective, .stop = std::move(stop)};
    effort.shared_devices = places_of(*found).shared();
    const Bound bound = lower_bound(times_in_order, RangeCosts(times_in_order), effort);
    found->lower_bound = bound.value;
    found->bound_name = bound.argument;
  }
  return outcome;
}

Result<StageOutcome> StagePlanner::candidate(const StageProblem& problem, std::stop_token stop) const {
  RANNC_TRY(validate(problem));
  return verified(monotone(problem), std::move(stop));
}

Result<StageOutcome> StagePlanner::verified(const StageProblem& monotone, std::stop_token stop) const {
  if (auto hopeless = too_many_stages(monotone, most_stages_per_device(monotone)))
    return StageOutcome(std::move(*hopeless));
  StageOutcome outcome = search(monotone, std::move(stop));
  if (auto* found = std::get_if<StagePlan>(&outcome)) {
    found->planner = name();
    if (const Result<void> kept = constraints_hold(monotone, *found); !kept.ok()) {
      return StageOutcome(
          Infeasible{"planner " + name() + " has no plan that satisfies the constraints: " + kept.diagnostic().message,
                     0, "planner rannc or auto"});
    }
    const Result<void> checked = verify_plan(monotone, *found);
    RANNC_CHECK(checked.ok()) << name() << ": " << checked.diagnostic().str();
  }
  return outcome;
}

std::string brief(const StagePlan& plan) {
  std::string replicas, cuts;
  for (const PlannedStage& stage : plan.stages) {
    replicas += (replicas.empty() ? "" : ":") + std::to_string(stage.devices.size());
    if (stage.first != 0) cuts += (cuts.empty() ? " at " : ",") + std::to_string(stage.first);
  }
  return replicas + cuts;
}

}  // namespace rannc::partition
