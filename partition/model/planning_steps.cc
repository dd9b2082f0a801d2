#include "partition/model/planning_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "partition/model/finish_plan.h"
#include "partition/model/fixed_batch.h"
#include "partition/model/lap.h"
#include "partition/model/sharded_stages.h"
#include "partition/model/stage_problem.h"
#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"

namespace rannc::partition {

namespace {

// Returns a plan with all blocks in one stage on the first `devices` devices, with the best micro-batch count and
// recompute choice.
Alternative alternative(const StageProblem& problem, PlanJudge& judge, const std::string& what, uint32_t devices) {
  Alternative entry{what, 0, {}};
  for (const uint64_t count : micro_batch_candidates(problem)) {
    for (const bool recompute : {false, true}) {
      if (problem.recompute == (recompute ? RecomputeRule::kNever : RecomputeRule::kAlways)) continue;
      StagePlan plan;
      plan.micro_batches = count;
      plan.schedule = "1f1b";
      plan.stages = {{0, problem.blocks, {}, recompute}};
      for (uint32_t d = 0; d < devices; ++d) plan.stages[0].devices.push_back(DeviceId(d));
      const JudgedPlan judged = judge.judge(std::move(plan));
      if (!judged) {
        if (entry.step_ns == 0) entry.remark = judged.why();
      } else if (entry.step_ns == 0 || judged->step_ns < static_cast<double>(entry.step_ns)) {
        entry.step_ns = static_cast<int64_t>(std::min(judged->step_ns, 4e18));
        entry.remark = fmt::format("{} micro-batches{}", count, recompute ? ", recompute" : "");
      }
    }
  }
  return entry;
}

std::vector<Alternative> alternatives(const StageProblem& problem) {
  PlanJudge judge(problem);
  std::vector<Alternative> found = {alternative(problem, judge, "one device", 1)};
  if (const uint32_t all = problem.cluster.size(); all > 1)
    found.push_back(alternative(problem, judge, fmt::format("data parallel on {} devices", all), all));
  return found;
}

// Returns a schedule for the layout of a hand-written table with several stages per device: a V if one device has the
// first and the last stage, else a loop.
std::string schedule_like(const std::string& table) {
  std::istringstream lines(table);
  int64_t last = -1;
  bool with_first = false;
  for (std::string line; std::getline(lines, line);) {
    int64_t largest = -1;
    bool first = false;
    for (size_t at = line.find('F'); at != std::string::npos; at = line.find('F', at + 1)) {
      const int64_t stage = std::atoll(line.c_str() + at + 1);
      largest = std::max(largest, stage);
      first = first || stage == 0;
    }
    if (largest <= last) continue;
    last = largest;
    with_first = first;
  }
  return with_first ? "zb-v" : "interleaved";
}

}  // namespace

AutoOptions search_of(const PlanOptions& options) {
  AutoOptions searched = options.search;
  const bool by_hand = schedule_needs(options.schedule, ScheduleFamily::Needs::kTable);
  if (!options.schedule.empty() && !by_hand) searched.schedules = {options.schedule};
  if (!by_hand) return searched;
  if (options.constraints.stages_per_device.value_or(1) > 1) {
    searched.schedules = {schedule_like(options.schedule_table)};
  } else if (searched.schedules.empty()) {
    searched.schedules = default_schedules(options);
    std::erase_if(searched.schedules,
                  [](const std::string& name) { return find_schedule(name)->layout != StageLayout::kOnePerRank; });
  }
  return searched;
}

AtomSamples atom_samples(const PlanOptions& options) {
  uint64_t most = 1;
  for (const uint64_t count : options.micro_batches) most = std::max(most, count);
  if (options.micro_batches.empty()) most = options.mini_batch;
  const uint64_t parts = std::max<uint64_t>(1, std::min<uint64_t>(most, options.mini_batch) * options.cluster.size());
  return {std::max<uint64_t>(1, options.mini_batch / 8), (options.mini_batch + parts - 1) / parts};
}

Result<StageProblem> problem_of(const PlanOptions& options, const ModelFacts& facts, const BlockPartition& blocks,
                                const KindMemory& memory) {
  RANNC_ASSIGN(StageProblem problem, stage_problem(facts, blocks));
  problem.cluster = options.cluster;
  for (size_t kind = 0; kind < memory.size(); ++kind) {
    // Nothing would mean without a limit.
    DeviceKind& own = problem.cluster.kinds[kind];
    own.memory_bytes = memory[kind] > own.workspace_bytes ? memory[kind] - own.workspace_bytes : 1;
  }
  static_cast<PlanDemands&>(problem) = options;
  problem.sharded = options.training && options.shard_optimizer == ShardOptimizer::kAlways;
  if (!options.training) problem.recompute = RecomputeRule::kNever;
  const ScheduleFamily* family = find_schedule(options.schedule);
  problem.in_flight = family == nullptr ? InFlight::kOneFOneB : family->assumed;
  const auto name = [&](uint32_t atom) { return task_name(facts.graph, facts.atoms.tasks[atom]); };
  RANNC_TRY(add_demands(options.demands, blocks.block_of, name, problem.constraints));
  return problem;
}

std::vector<Overfull> overfull(const ir::Plan& plan, const PlanOptions& options) {
  const KindMemory memory = memory_of_kinds(options);
  std::vector<Overfull> worst;
  for (size_t kind = 0; kind < memory.size(); ++kind) {
    Overfull found{kind, 0, static_cast<double>(memory[kind])};
    for (size_t d = 0; d < plan.devices.size(); ++d) {
      if (plan.devices[d].kind != options.cluster.kinds[kind].name) continue;
      found.needed = std::max(found.needed, static_cast<double>(plan.predictions[d].peak_bytes));
    }
    if (found.needed > found.offered) worst.push_back(found);
  }
  return worst;
}

Result<void> finish(const PlanOptions& options, const ModelFacts& facts, PlannedModel& planned) {
  Lap lap;
  RANNC_ASSIGN(planned.plan, finish_plan(facts, planned.blocks.partition.block_of, planned.stages, options));
  count_fixed_samples(planned.plan);
  planned.times.schedule += lap.ns();
  RANNC_ASSIGN(planned.timeline, predict(planned.plan, options.cluster));
  planned.alternatives = alternatives(planned.problem);
  planned.times.simulate += lap.ns();
  return {};
}

}  // namespace rannc::partition
