/// Random instances of the formal problem of pipelined model parallelism, as they are given to our planner.
#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "partition/reference/exact_period.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/search/auto.h"

namespace rannc::partition::testing {

/// A chain of 2 to `layers` layers on 2 or 3 devices, with memory from what its largest layer needs to ample.
inline PeriodProblem random_chain(uint64_t seed, uint32_t layers) {
  std::mt19937_64 random(seed);
  const auto between = [&](uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(random() % (high - low + 1));
  };
  PeriodProblem chain;
  uint32_t least = 0, all = 0;
  for (uint32_t l = 0, n = between(2, layers); l < n; ++l) {
    chain.forward.push_back(between(1, 3));
    chain.backward.push_back(between(1, 4));
    chain.weights.push_back(between(0, 4));
    chain.activations.push_back(between(1, 3));
    least = std::max(least, chain.weights[l] + chain.activations[l]);
    all += chain.weights[l] + 2 * chain.activations[l];
  }
  chain.devices = between(2, 3);
  chain.memory = between(least, std::max(least, all / chain.devices + 3));
  return chain;
}

/// The chain as blocks without messages, parameters or step; a micro-batch has one sample, so that no stage has
/// replicas. A unit of time is 100 ns, a unit of memory 1000 bytes.
inline StageProblem stage_problem(const PeriodProblem& chain, uint32_t batches) {
  StageProblem problem;
  problem.blocks = static_cast<uint32_t>(chain.forward.size());
  TimeTable table{{1}, {{}}, {{}}};
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    table.forward[0].push_back(100.0 * chain.forward[b]);
    table.backward[0].push_back(100.0 * chain.backward[b]);
    problem.buffer_bytes.push_back(1000.0 * chain.weights[b]);
    problem.stashed_bytes_per_sample.push_back(1000.0 * chain.activations[b]);
    if (b > 0) problem.values.push_back({b - 1, {b}, 0, 0, true});
  }
  problem.times.push_back(table);
  problem.parameter_bytes.assign(problem.blocks, 0);
  problem.cluster = make_cluster("equal", {"d", uint64_t{1000} * chain.memory, 1e12, 1e15, 0}, 1, chain.devices,
                                 {1e18, 0}, {1e18, 0});
  problem.mini_batch = batches;
  problem.micro_batches = {batches};
  return problem;
}

/// Schedules that `auto` may choose from, with a name: its own, and those of the paper.
inline const std::vector<std::pair<std::string, std::vector<std::string>>>& period_planners() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kPlanners = {
      {"auto", {}},
      {"periodic", {"periodic"}},
      {"1f1b-star, k-periodic", {"1f1b-star", "k-periodic"}},
      {"all of these and latency", {"1f1b", "latency", "found", "1f1b-star", "k-periodic", "periodic"}}};
  return kPlanners;
}

/// A plan of `auto` in the units of the chain.
struct PlannedPeriod {
  StagePlan plan;
  double per_batch = 0;  ///< time of 24 batches, with fill and drain, divided by 24
  double period = 0;     ///< time that each further batch takes
};

/// Nothing if there is no plan.
inline std::optional<PlannedPeriod> planned_period(const PeriodProblem& chain, std::vector<std::string> schedules,
                                                   AutoOptions::Lean lean = AutoOptions::Lean::kIfNothingFits) {
  constexpr uint32_t kBatches = 24;  // a multiple of the patterns of all schedules that fit these chains
  AutoOptions options;
  options.schedules = std::move(schedules);
  options.lean = lean;
  const StageProblem problem = stage_problem(chain, kBatches), longer = stage_problem(chain, 2 * kBatches);
  const auto outcome = auto_planner(options)->plan(problem).value();
  const auto* plan = std::get_if<StagePlan>(&outcome);
  if (plan == nullptr) return std::nullopt;
  StagePlan more = *plan;
  more.micro_batches = 2 * kBatches;
  const auto judged = PlanJudge(longer).judge(more);
  const double steps = judged ? judged->step_ns - plan->step_ns : kInfinity;
  return PlannedPeriod{*plan, plan->step_ns / kBatches / 100, steps / kBatches / 100};
}

}  // namespace rannc::partition::testing
