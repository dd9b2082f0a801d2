// Simulates a plan's mini-batch device by device: every replica, value and port separately, as a bundle runs it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/schedule/dependencies.h"
#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/schedule_memory.h"
#include "partition/schedule/found/find_rows.h"
#include "partition/schedule/make_schedule.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/judge/judge_run.h"
#include "partition/stages/pricing/cluster_links.h"
#include "partition/stages/pricing/prices.h"
#include "partition/stages/pricing/stage_sums.h"

namespace rannc::partition {
namespace {

constexpr double kMostSums = 256;    ///< of a stage
constexpr double kSumActions = 5e4;  ///< of all devices, if all stages have several replicas

/// Number of sums into which a stage divides its gradients, so that a message waits for one of them at most.
uint32_t sums_of(double bytes, double bucket, size_t known, size_t devices) {
  const double most = std::min(kMostSums, std::ceil(kSumActions / static_cast<double>(devices)));
  const double count = bucket > 0 ? std::ceil(bytes / bucket) : 1;
  return static_cast<uint32_t>(std::clamp(std::max(count, static_cast<double>(known)), 1.0, most));
}

/// Returns the devices with a stage, in the cluster's order, as the finished plan numbers them.
std::vector<DeviceId> used_devices(const StagePlan& plan) {
  std::vector<DeviceId> used;
  for (const PlannedStage& stage : plan.stages) used.insert(used.end(), stage.devices.begin(), stage.devices.end());
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

DeviceId number_of(const std::vector<DeviceId>& used, DeviceId device) {
  return DeviceId::from(static_cast<size_t>(std::lower_bound(used.begin(), used.end(), device) - used.begin()));
}

SimulationOptions simulation_of(const StagePlan& plan, const ir::Schedule& lowered) {
  SimulationOptions options;
  options.memory = options.spans = false;
  options.contention = options.skip_periods = contended(lowered);
  // A step is hardly ever sixteen times as long as judged. If it were, fewer periods would be detected.
  if (plan.step_ns > 0) options.grain = std::ldexp(1, std::ilogb(16 * plan.step_ns) - 51);
  return options;
}

/// The pattern of rows, numbered in ascending order.
Result<SchedulePattern> ascending_pattern(const ir::Schedule& rows, const ir::PipelineShape& shape) {
  RANNC_ASSIGN(const ir::Schedule ascending, in_ascending_order(rows, shape));
  return pattern_of(ascending, shape);
}

int64_t whole(double bytes) { return static_cast<int64_t>(std::min(std::ceil(bytes), 9e15)); }

}  // namespace

std::vector<ir::RouteShape> value_routes(const StageProblem& problem, const StagePlan& plan,
                                         const std::vector<uint32_t>& micro_batches) {
  std::vector<uint32_t> stage_of(problem.blocks);
  for (uint32_t s = 0; s < plan.stages.size(); ++s) {
    for (uint32_t b = plan.stages[s].first; b < plan.stages[s].end; ++b) stage_of[b] = s;
  }
  // Whole bytes per sample that cover a micro-batch of any size.
  const double smallest = micro_batches.back();
  std::vector<ir::RouteShape> routes;
  for (const BlockValue& value : problem.values) {
    const uint32_t from = stage_of[value.producer];
    const double bytes = std::min(std::ceil(value.bytes_per_sample + value.bytes / smallest), 9e15 / micro_batches[0]);
    uint32_t before = from;
    for (const uint32_t reader : value.readers) {
      if (stage_of[reader] == before) continue;
      before = stage_of[reader];
      routes.push_back({StageId(from), StageId(before), static_cast<int64_t>(bytes), value.gradient});
    }
  }
  return routes;
}

std::optional<Refusal> PlanJudge::lay_out_by_device(StagePlan& plan, Run& run, double beat) {
  if (const auto refusal = lay_out(plan, run)) return *refusal;
  const size_t stages = plan.stages.size();
  run.sums = run.shape.routes = value_routes(problem_, plan, run.shape.micro_batches);
  run.ways.assign(size_t{run.places.count()} * run.places.count(),
                  {});  // no messages: computation alone is a bound for any ports
  if (const auto refusal = beaten(plan, run, beat)) return *refusal;
  const std::vector<DeviceId>& used = run.used = used_devices(plan);
  const auto bucket = static_cast<double>(problem_.bucket_bytes);
  run.shape.devices = static_cast<uint32_t>(used.size());
  for (size_t s = 0; s < stages; ++s) {
    run.shape.stages[s].devices = plan.stages[s].devices;
    for (DeviceId& device : run.shape.stages[s].devices) device = number_of(used, device);
    const double bytes = problem_.overlap_sums ? ranges_->gradients(plan.stages[s].first, plan.stages[s].end) : 0;
    run.costs.all_reduce.push_back(
        even_sums(run.reductions[s], sums_of(bytes, bucket, run.reductions[s].size(), used.size())));
    run.shape.stages[s].sums = std::max<uint32_t>(1, static_cast<uint32_t>(run.costs.all_reduce.back().size()));
  }
  run.costs.step = run.steps;
  use_links(run.costs, problem_.cluster, used);
  return std::nullopt;
}

JudgedPlan PlanJudge::judge_by_device(StagePlan plan, double beat) {
  Run run;
  if (const auto refusal = lay_out_by_device(plan, run, beat)) return *refusal;
  const auto rows = make_schedule(run.shape, schedule_of(problem_, *ranges_, plan));
  RANNC_CHECK(rows.ok()) << rows.diagnostic().str();
  // Those of times without receipts may hold more than the rows that fit.
  if (schedule_needs(plan.schedule, ScheduleFamily::Needs::kTimes)) {
    if (const auto refusal = add_peaks(plan, run, *rows)) return *refusal;
  }
  const auto schedule = ir::lower_schedule(run.shape, *rows);
  RANNC_CHECK(schedule.ok()) << schedule.diagnostic().str();
  const SimulationOptions options = simulation_of(plan, *schedule);
  const auto timeline = simulate(run.shape, *schedule, run.costs, options);
  RANNC_CHECK(timeline.ok()) << timeline.diagnostic().str();
  plan.step_ns = timeline->makespan;
  if (const auto refusal = too_slow(plan)) return *refusal;
  if (problem_.objective == Objective::kStepTime) plan.objective = plan.step_ns;
  return plan;
}

// Messages are counted with the rows, so that stages do not stand for theirs as well. The plan's own rows fit.
void PlanJudge::add_memory(const StagePlan& plan, const ir::Schedule& own, Run& run) const {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    const StageBytes& bytes = run.bytes[s];
    const double samples = std::ceil(static_cast<double>(run.largest) / static_cast<double>(stage.devices.size()));
    const double sent = ranges_->sent(stage.first, stage.end).at(samples),
                 received = ranges_->received(stage.first, stage.end).at(samples);
    ir::StageShape& shape = run.shape.stages[s];
    shape.fixed_bytes =
        whole(std::max(0.0, bytes.standing - bytes.working - bytes.gradients - sent - std::max(received, sent)));
    shape.gradient_bytes = whole(bytes.gradients);
    shape.kept_bytes = whole(bytes.in_flight / samples);
    shape.saved_bytes = whole((bytes.in_flight + bytes.repeated) / samples);
    shape.temporary_bytes = whole((bytes.working - bytes.repeated + bytes.parted) / samples);
    shape.pending_bytes = whole(bytes.added_by_input_gradient() / samples);
    shape.sum_bytes = whole(bytes.sums);
  }
  const ir::Dependencies dependencies(run.shape);
  for (uint32_t d = 0; d < run.used.size(); ++d) {
    const double memory = memory_of(problem_, run.used[d]);
    const int64_t least = ir::row_peak(dependencies, own, DeviceId(d));
    run.shape.memory_bytes.push_back(memory < 9e15 ? std::max(least, static_cast<int64_t>(memory)) : 0);
  }
}

// Trying every named schedule must leave some of the budget. Rows of few micro-batches are a pattern for all.
void PlanJudge::shorten(Run& run, uint64_t actions, size_t stages) {
  constexpr uint64_t kActions = 1000;  // of the search, for a device's passes of a micro-batch under every schedule
  const uint64_t few = std::max<uint64_t>(4 * stages, actions / (kActions * run.used.size()));
  if (few >= run.shape.micro_batches.size()) return;
  run.shape.micro_batches.resize(few);
  if (!run.costs.size_class.empty()) run.costs.size_class.resize(few);
}

JudgedPlan PlanJudge::find_rows(StagePlan plan, uint64_t actions, double beat) {
  constexpr int kTries = 3;
  Run run;
  if (const auto refusal = lay_out_by_device(plan, run, beat)) return *refusal;
  const auto named = make_schedule(run.shape, schedule_of(problem_, *ranges_, plan));
  RANNC_CHECK(named.ok()) << named.diagnostic().str();
  const auto lowered = ir::lower_schedule(run.shape, *named);
  RANNC_CHECK(lowered.ok()) << lowered.diagnostic().str();
  add_memory(plan, *lowered, run);
  shorten(run, actions, plan.stages.size());
  FoundOptions options;
  options.beat = beat;
  options.actions = actions / kTries;
  options.parts = problem_.parts_backward ? found::BackwardParts::kSplit : found::BackwardParts::kWhole;
  options.recomputed = problem_.recomputed;
  const auto with = [&plan](SchedulePattern pattern) {
    StagePlan other = plan;
    other.schedule = "found";
    other.warm_up.clear();
    other.pattern = std::move(pattern);
    return other;
  };
  const SimulationOptions simulation = simulation_of(plan, *lowered);
  for (int left = kTries; left > 0; --left) {
    auto found = find_schedule_rows({run.shape, run.costs, simulation}, options);
    RANNC_CHECK(found.ok()) << found.diagnostic().str();
    row_actions_ += found->actions;
    if (found->bound.value >= beat) return Refusal{};
    if (!found->schedule) break;
    if (found->pattern.empty()) {
      auto pattern = pattern_of(*found->schedule, run.shape);
      if (!pattern.ok()) break;
      found->pattern = *std::move(pattern);
    }
    const JudgedPlan judged = judge(with(std::move(found->pattern)));
    if (judged) return judge_by_device(*judged, beat);
    const Refusal refusal = judged.refusal();
    if (refusal.reason != Refusal::Reason::kMemory) return refusal;
    // The judge counts more than the rows' own memory. Rows of the next try need as much less.
    for (const DeviceId device : run.shape.stages[refusal.stage].devices) {
      int64_t& limit = run.shape.memory_bytes[device.index()];
      limit = std::max<int64_t>(1, limit - whole(refusal.found - refusal.allowed));
    }
  }
  // The plan's own rows fit.
  run.shape.micro_batches.resize(plan.micro_batches, run.shape.micro_batches.back());
  const auto ascending = ascending_pattern(*named, run.shape);
  if (!ascending.ok()) return Refusal{Refusal::Reason::kNoRows};
  const JudgedPlan judged = judge(with(*ascending));
  return judged ? judge_by_device(*judged, beat) : judged;
}

}  // namespace rannc::partition
