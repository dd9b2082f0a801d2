#include "tests/partition/stages/bounds/bound_problems.h"

#include <algorithm>
#include <array>

#include "partition/schedule/family.h"
#include "partition/stages/bounds/bounds.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/pricing/range_costs.h"
#include "partition/stages/problem/places.h"
#include "tests/partition/stages/support/judging.h"
#include "tests/partition/stages/support/oracle.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition::testing {
namespace {

/// Warm-up depths that some schedule may have: they do not ascend.
std::vector<uint32_t> random_depths(std::mt19937_64& random, size_t stages, uint64_t micro_batches) {
  std::vector<uint32_t> depths(stages);
  for (uint32_t& depth : depths) depth = 1 + static_cast<uint32_t>(random() % micro_batches);
  std::sort(depths.rbegin(), depths.rend());
  return depths;
}

}  // namespace

std::optional<double> least_of_all_plans(const StageProblem& problem, std::mt19937_64& random) {
  PlanJudge judge(problem);
  std::vector<std::string> schedules = schedules_of_auto();
  schedules.insert(schedules.end(), {"latency", "periodic", "serial"});
  std::optional<double> least;
  std::optional<StagePlan> best;
  const auto note = [&least](std::optional<double> time) {
    if (time && (!least || *time < *least)) least = time;
  };
  for_each_roomy_plan(problem, [&](StagePlan plan) {
    for (const std::string& schedule : schedules) {
      if (!suits(schedule, plan) || schedule_needs(schedule, ScheduleFamily::Needs::kPattern)) continue;
      plan.schedule = schedule;
      plan.warm_up.clear();
      if (schedule == "warmup") plan.warm_up = random_depths(random, plan.stages.size(), plan.micro_batches);
      if (!testing::judge(judge, plan)) continue;
      note(plan.objective);
      if (!best || plan.objective < best->objective) best = plan;
      if (problem.objective == Objective::kStepTime) note(testing::take(judge.judge_by_device(plan), plan));
    }
  });
  if (best && problem.objective == Objective::kStepTime) {
    const JudgedPlan found = judge.find_rows(*best, 50'000);
    if (found) note(found->objective);
  }
  return least;
}

StageProblem tight_problem(std::mt19937_64& random, bool unequal) {
  StageProblem problem =
      random_problem(random, {.most_blocks = 4, .most_devices = 4, .unequal = unequal, .skips = random() % 2 == 0});
  problem.recompute = RecomputeRule::kChoose;
  if (problem.micro_batches.size() > 2) problem.micro_batches.resize(2);
  if (random() % 2 == 0) problem.micro_batches = {problem.mini_batch};
  double one = 0, all = 0;
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    problem.parameter_bytes[b] = static_cast<double>(random() % 20);
    one = std::max(one, problem.stashed_bytes_per_sample[b] + 4 * problem.parameter_bytes[b]);
    all += problem.stashed_bytes_per_sample[b] + 4 * problem.parameter_bytes[b];
  }
  for (BlockValue& value : problem.values) value.bytes_per_sample = static_cast<double>(random() % 6);
  for (DeviceKind& kind : problem.cluster.kinds) {
    kind.memory_bytes = static_cast<uint64_t>(one + static_cast<double>(random() % 1000) / 500 * all) + 20;
  }
  for (TimeTable& table : problem.times) {
    if (random() % 2 == 0) continue;
    table.weight_gradient = table.backward;
    // A larger share may put off more: what is left of a backward pass need not grow with the samples.
    for (auto& row : table.weight_gradient) {
      for (double& time : row) time *= static_cast<double>(random() % 10) / 10;
    }
    table.make_monotone();
  }
  return problem;
}

StageProblem slow_links_problem(std::mt19937_64& random, bool unequal) {
  StageProblem problem =
      random_problem(random, {.most_blocks = 4, .most_devices = 4, .unequal = unequal, .skips = random() % 2 == 0});
  problem.micro_batches = {1 + random() % problem.mini_batch};
  problem.objective =
      std::array{Objective::kStepTime, Objective::kStepTime, Objective::kPeriod, Objective::kLargestLoad}[random() % 4];
  const double slower = 1 + static_cast<double>(random() % 8);
  const auto slow = [slower](Link& link) {
    link.bytes_per_second /= slower;
    link.latency_ns *= slower;
  };
  slow(problem.cluster.between);
  for (ClusterNode& node : problem.cluster.nodes) slow(node.inside);
  for (auto& [ends, link] : problem.cluster.device_links) slow(link);
  return problem;
}

Tightness compare_bounds(const MakeProblem& make, int instances) {
  Tightness found;
  for (int i = 0; i < instances; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) * 7'919 + 11);
    const StageProblem problem = make(random, i % 3 == 0);
    const auto least = least_of_all_plans(problem, random);
    if (!least) continue;
    ++found.feasible;
    const double bound = lower_bound(problem, RangeCosts(problem)).value;
    if (bound > *least * (1 + 1e-9)) found.broken.push_back(i);
    const bool close = bound >= 0.9 * *least, uniform = problem.cluster.uniform();
    found.close += close;
    found.uniform += uniform;
    found.uniform_close += close && uniform;
  }
  return found;
}

}  // namespace rannc::partition::testing
