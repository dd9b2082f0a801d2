#include "partition/stages/covers/cover_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "partition/transfers.h"

namespace rannc::partition {
namespace {

bool coverable(const std::vector<CoverFinder*>& finders, StageCount count, std::optional<double> memory) {
  for (CoverFinder* finder : finders) {
    finder->set_memory(memory);
    const bool found = finder->find({kInfinity, kInfinity, kInfinity}, count).has_value();
    finder->set_memory(std::nullopt);
    if (found) return true;
  }
  return false;
}

std::string amount(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.0f} bytes", bytes);
  return bytes < 1e9 ? fmt::format("{:.3f} MB", bytes / 1e6) : fmt::format("{:.3f} GB", bytes / 1e9);
}

}  // namespace

std::string bottleneck_of(const StagePlan& plan) {
  size_t worst = 0;
  double total = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto time = [&](size_t i) { return plan.stages[i].forward_ns + plan.stages[i].backward_ns; };
    total += time(s);
    if (time(s) > time(worst)) worst = s;
  }
  const PlannedStage& stage = plan.stages[worst];
  const double mean = total / static_cast<double>(plan.stages.size());
  return fmt::format("stage {} (blocks {} to {}, {} replicas) takes {:.3f} ms a micro-batch, {:.2f} times the mean",
                     worst, stage.first, stage.end - 1, stage.devices.size(),
                     (stage.forward_ns + stage.backward_ns) / 1e6,
                     mean > 0 ? (stage.forward_ns + stage.backward_ns) / mean : 1.0);
}

StageCount stage_count(const StageProblem& problem) {
  StageCount count{1, std::min(problem.blocks, problem.cluster.size())};
  if (problem.constraints.max_stages) count.most = std::min(count.most, *problem.constraints.max_stages);
  if (problem.constraints.stages) {
    count.least = *problem.constraints.stages;
    count.most = std::min(count.most, *problem.constraints.stages);
  }
  return count;
}

double stage_all_reduce_ns(const StageProblem& problem, const TrainedPart& stage,
                           const std::vector<DeviceId>& devices) {
  if (devices.size() < 2) return 0;
  std::vector<DeviceId> ascending = devices;
  std::sort(ascending.begin(), ascending.end());
  // Each of the two halves of a ring takes half its time.
  const double bytes = problem.sharded ? (stage.gradients + stage.parameters) / 2 : stage.gradients;
  return all_reduce_ns(bytes, ascending.size(), problem.cluster.slowest_link(ascending));
}

double optimizer_ns(const StageProblem& problem, const TrainedPart& stage, const std::vector<DeviceId>& devices) {
  double rate = kInfinity;
  for (const DeviceId device : devices) rate = std::min(rate, problem.cluster.kind_of(device).bytes_per_second);
  const double whole = optimizer_pass_ns(stage.parameters, stage.gradients, stage.states, rate);
  return problem.sharded ? whole / static_cast<double>(devices.size()) : whole;
}

StagePlan plan_of_cover(const StageProblem& problem, const RangeCosts& ranges, const Cover& cover,
                        uint64_t micro_batches, uint32_t devices, uint32_t copies) {
  const StagePrices prices(problem, ranges, micro_batches, devices, copies);
  StagePlan plan;
  plan.micro_batches = micro_batches;
  plan.schedule = problem.in_flight == InFlight::kAll ? "gpipe" : "1f1b";
  for (size_t s = 0; s < cover.stages.size(); ++s) {
    const CoveredStage& from = cover.stages[s];
    PlannedStage stage{from.first, from.end, {}, from.recompute, from.need.forward_ns, from.need.backward_ns, 0, 0};
    for (uint32_t copy = 0; copy < copies; ++copy) {
      for (uint32_t d = from.from; d < from.to; ++d) stage.devices.push_back(DeviceId(copy * devices + d));
    }
    const size_t share = prices.share_of(from.to - from.from);
    stage.peak_bytes =
        prices.peak_bytes(from.first, from.end, share, from.recompute, static_cast<uint32_t>(cover.stages.size() - s));
    stage.all_reduce_ns = stage_all_reduce_ns(
        problem,
        {.parameters = ranges.parameters(from.first, from.end), .gradients = ranges.gradients(from.first, from.end)},
        stage.devices);
    stage.exposed_ns = stage.all_reduce_ns;  // until the plan is judged
    plan.stages.push_back(std::move(stage));
  }
  if (problem.in_flight != InFlight::kAll) {
    for (size_t s = plan.stages.size(); s > 0; --s) {
      plan.warm_up.push_back(
          static_cast<uint32_t>(in_flight(problem.in_flight, static_cast<uint32_t>(s), micro_batches)));
    }
  }
  plan.bottleneck = bottleneck_of(plan);
  return plan;
}

Infeasible explain_infeasible(const StageProblem& problem, const std::vector<CoverFinder*>& finders, StageCount count) {
  if (finders.empty()) {
    return {fmt::format("no candidate micro-batch count divides {} samples", problem.mini_batch), 0,
            "allow 1 micro-batch, or a larger mini-batch"};
  }
  if (!coverable(finders, count, kInfinity)) {
    return {"no split meets the constraints, whatever the memory", 0,
            "allow more cuts, other replica counts, fewer micro-batches or more devices"};
  }
  double offered = 0;
  for (uint32_t d = 0; d < problem.cluster.size(); ++d) offered = std::max(offered, memory_of(problem, DeviceId(d)));
  double low = 1, high = 1;
  while (!coverable(finders, count, high)) {
    low = high;
    high *= 2;
  }
  for (int step = 0; step < 40 && high - low > 1; ++step) {
    const double middle = (low + high) / 2;
    (coverable(finders, count, middle) ? high : low) = middle;
  }
  const double needed = std::ceil(high);
  std::string help = "more memory per device, more devices";
  if (problem.recompute == RecomputeRule::kNever) help += ", recompute";
  if (problem.in_flight == InFlight::kAll) help += ", a schedule that keeps fewer micro-batches in flight (1f1b)";
  return {fmt::format("the best split still needs {} on its fullest device, which offers {}", amount(needed),
                      amount(offered)),
          std::max(0.0, needed - offered), help};
}

}  // namespace rannc::partition
