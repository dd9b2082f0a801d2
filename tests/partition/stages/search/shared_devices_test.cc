// Plans with several stages on a device: their prices, their bounds, and the search against an enumeration of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "ir/schedule/schedule_memory.h"
#include "partition/schedule/family.h"
#include "partition/schedule/make_schedule.h"
#include "partition/stages/judge/finalists.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/judge/row_peaks.h"
#include "partition/stages/problem/places.h"
#include "partition/stages/search/auto.h"
#include "partition/stages/search/every_plan.h"
#include "partition/stages/search/exact.h"
#include "partition/stages/search/plan_moves.h"
#include "tests/partition/stages/support/judging.h"
#include "tests/partition/stages/support/random_problem.h"
#include "tests/support/tier.h"

namespace rannc::partition {
namespace {

using ::rannc::testing::cases_of;
using ::rannc::testing::tests_everything;

/// Calls `visit` for every plan: all cuts, all ways to give each stage new consecutive devices or those of an earlier
/// stage, all recompute choices and micro-batch counts. Shares no code with `every_plan`.
class EveryAllocation {
 public:
  EveryAllocation(const StageProblem& problem, uint32_t most_per_device, std::function<void(const StagePlan&)> visit)
      : problem_(problem), most_(most_per_device), visit_(std::move(visit)) {}

  void run() {
    for (const uint64_t count : micro_batch_candidates(problem_)) {
      plan_.micro_batches = count;
      for (uint32_t cuts = 0; cuts < 1U << (problem_.blocks - 1); ++cuts) {
        plan_.stages.assign(1, {});
        for (uint32_t b = 1; b < problem_.blocks; ++b) {
          if ((cuts >> (b - 1)) % 2 == 0) continue;
          plan_.stages.back().end = b;
          plan_.stages.push_back({b, 0, {}});
        }
        plan_.stages.back().end = problem_.blocks;
        allocate(0, 0);
      }
    }
  }

 private:
  void allocate(size_t s, uint32_t device) {
    if (s == plan_.stages.size()) return choose_recompute(0);
    for (size_t other = 0; other < s; ++other) {
      bool first = true;
      uint32_t held = 0;
      for (size_t i = 0; i < s; ++i) {
        if (plan_.stages[i].devices != plan_.stages[other].devices) continue;
        first = first && i >= other;
        ++held;
      }
      if (!first || held == most_) continue;
      plan_.stages[s].devices = plan_.stages[other].devices;
      allocate(s + 1, device);
    }
    for (uint32_t count = 1; device + count <= problem_.cluster.size(); ++count) {
      plan_.stages[s].devices.clear();
      for (uint32_t i = 0; i < count; ++i) plan_.stages[s].devices.push_back(DeviceId(device + i));
      allocate(s + 1, device + count);
    }
  }

  void choose_recompute(size_t s) {
    if (s == plan_.stages.size()) return visit_(plan_);
    for (const bool recompute : {false, true}) {
      if (problem_.recompute == (recompute ? RecomputeRule::kNever : RecomputeRule::kAlways)) continue;
      plan_.stages[s].recompute = recompute;
      choose_recompute(s + 1);
    }
  }

  const StageProblem& problem_;
  const uint32_t most_;
  std::function<void(const StagePlan&)> visit_;
  StagePlan plan_;
};

/// Least objective over every allocation that some of the schedules suits.
std::optional<double> least_of(const StageProblem& problem, const std::vector<std::string>& schedules) {
  PlanJudge judge(problem);
  std::optional<double> least;
  const auto try_one = [&](StagePlan plan, const std::string& schedule) {
    plan.schedule = schedule;
    if (!suits(schedule, plan) || !keeps_constraints(problem, plan)) return;
    const bool step = problem.objective == Objective::kStepTime;
    const auto found = step ? testing::judge_as_run(judge, plan) : testing::judge(judge, plan);
    if (found && (!least || *found < *least)) least = found;
  };
  EveryAllocation(problem, 2, [&](const StagePlan& plan) {
    for (const std::string& schedule : schedules) try_one(plan, schedule);
  }).run();
  return least;
}

StageProblem small_problem(std::mt19937_64& random, const testing::RandomOptions& options) {
  StageProblem problem = testing::random_problem(random, options);
  if (problem.micro_batches.size() > 2) problem.micro_batches.resize(2);
  if (random() % 4 != 0) problem.recompute = RecomputeRule::kNever;
  for (TimeTable& table : problem.times) {
    table.weight_gradient = table.backward;
    for (auto& row : table.weight_gradient) {
      for (double& time : row) time *= 0.5;
    }
  }
  return problem;
}

/// Compares the exhaustive search and the local search with the enumeration.
void compare(uint64_t seed, int all, const testing::RandomOptions& random_options,
             const std::vector<std::string>& schedules, Objective objective = Objective::kStepTime) {
  const int count = cases_of(all);
  AutoOptions options;
  options.rivals = AutoOptions::Rivals::kExcluded;
  options.placement = AutoOptions::Placement::kKeep;
  options.schedules = schedules;
  options.exhaustive_plans = 1'000'000;
  options.simulated_actions = uint64_t{1} << 40;
  AutoOptions moves = options;
  moves.exhaustive_plans = 0;
  moves.simulated_actions = 20'000;
  int feasible = 0;
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " instance " + std::to_string(i));
    std::mt19937_64 random(seed * 7'000'003 + static_cast<uint64_t>(i));
    StageProblem problem = small_problem(random, random_options);
    problem.objective = objective;
    const auto least = least_of(problem, schedules);
    const auto outcome = auto_planner(options)->plan(problem);
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    const auto* plan = std::get_if<StagePlan>(&*outcome);
    ASSERT_EQ(plan != nullptr, least.has_value());
    if (plan == nullptr) continue;
    ++feasible;
    const double slack = 1e-9 * std::max(1.0, *least);
    ASSERT_NEAR(plan->objective, *least, slack) << brief(*plan) << " " << plan->schedule;
    ASSERT_LE(plan->lower_bound, plan->objective);
    ASSERT_LE(PlanJudge(problem).lower_bound({.shared_devices = true}).value, *least + slack);
    const auto climbed = auto_planner(moves)->plan(problem);
    ASSERT_TRUE(climbed.ok()) << climbed.diagnostic().str();
    const auto* moved = std::get_if<StagePlan>(&*climbed);
    if (moved == nullptr) continue;
    ASSERT_GE(moved->objective, *least - slack) << brief(*moved) << " " << moved->schedule;
    ASSERT_LE(moved->lower_bound, *least + slack);
  }
  EXPECT_GE(feasible, count / 4);
}

const testing::RandomOptions kChains{.most_blocks = 4, .most_devices = 3};
const testing::RandomOptions kDags{.most_blocks = 4, .most_devices = 3, .skips = true};
const testing::RandomOptions kTight{.most_blocks = 4, .most_devices = 3, .tight = true, .skips = true};

TEST(SharedDevices, EqualsExhaustiveSearchInVAndLoop) {
  compare(1, 250, kChains, {"1f1b", "interleaved", "zb-v"});
  compare(2, 100, kDags, {"v-half", "v-min", "zb-h1"});
}
TEST(SharedDevices, EqualsExhaustiveSearchUnderTightMemory) {
  compare(3, 250, kTight, {"gpipe", "interleaved", "v-half", "zb-v"});
}
TEST(SharedDevices, EqualsExhaustiveSearchOverAnyAllocation) {
  compare(4, 250, kDags, {"periodic"});
  compare(5, 100, kTight, {"1f1b", "periodic"});
}
TEST(SharedDevices, EqualsExhaustiveSearchForOtherObjectives) {
  compare(6, 80, kDags, {"1f1b", "interleaved"}, Objective::kPeriod);
  compare(7, 80, kDags, {"1f1b", "interleaved"}, Objective::kLargestLoad);
  compare(8, 80, kTight, {"1f1b", "zb-v"}, Objective::kPeakMemory);
}
TEST(SharedDevices, EqualsExhaustiveSearchWithSchedulesThatNeedTimes) {
  compare(9, 60, kDags, {"latency"});
  compare(11, 60, kTight, {"1f1b-star", "k-periodic", "latency"});
}

TEST(EveryPlan, VisitsDistinctPlansAsManyAsItCounts) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    StageProblem problem = testing::random_problem(random, {.most_blocks = 5, .most_devices = 4});
    problem.mini_batch = 8;
    problem.micro_batches = {2};
    problem.constraints = {};
    for (const Arrangement one : {Arrangement{}, Arrangement{StageLayout::kV, 2}, Arrangement{StageLayout::kLoop, 2},
                                  Arrangement{StageLayout::kLoop, 3}, Arrangement{StageLayout::kAny, 2}}) {
      std::set<std::string> seen;
      every_plan(problem, one, [&](const StagePlan& plan) {
        EXPECT_TRUE(seen.insert(identity(plan)).second);
        EXPECT_TRUE(has_layout(one.layout, places_of(plan).of_stage));
        EXPECT_LE(places_of(plan).most_stages(), one.chunks);
      });
      EXPECT_EQ(seen.size(), count_plans(problem, one, 1'000'000));
    }
  }
}

TEST(EveryPlan, KeepsTheNumberOfStagesPerDevice) {
  std::mt19937_64 random(5);
  StageProblem problem = testing::random_problem(random, {.most_blocks = 5, .most_devices = 4});
  problem.constraints.stages_per_device = 2;
  every_plan(problem, {StageLayout::kAny, 2},
             [](const StagePlan& plan) { EXPECT_EQ(places_of(plan).most_stages(), 2U); });
}

/// A chain of equal blocks on two equal devices with links that cost nothing to speak of.
StageProblem chain(uint32_t blocks, std::vector<double> forward) {
  StageProblem problem;
  problem.blocks = blocks;
  std::vector<double> backward = forward;
  for (double& time : backward) time *= 2;
  std::vector<double> weight = forward;
  problem.times.push_back({{1}, {forward}, {backward}, {weight}});
  problem.parameter_bytes.assign(blocks, 10);
  problem.stashed_bytes_per_sample.assign(blocks, 50);
  for (uint32_t b = 0; b + 1 < blocks; ++b) problem.values.push_back({b, {b + 1}, 1, 0, true});
  problem.cluster = make_cluster("two", {"d", 1ull << 40, 1e12, 1e15, 0}, 1, 2, {1e15, 0}, {1e15, 0});
  problem.mini_batch = 8;
  problem.micro_batches = {8};
  return problem;
}

/// Blocks one to a stage, on the given devices.
StagePlan allocated(const std::vector<uint32_t>& devices, const std::string& schedule) {
  StagePlan plan;
  plan.micro_batches = 8;
  plan.schedule = schedule;
  for (uint32_t s = 0; s < devices.size(); ++s) plan.stages.push_back({s, s + 1, {DeviceId(devices[s])}});
  return plan;
}

// F, I and W of a chunk take 100 each. Each of two ranks works 8 * 2 * 300; ZB-V adds what the last rank waits for its
// first chunk, 100, and nothing at the end, where W fills the gaps.
TEST(SharedDevices, PriceAVByItsRows) {
  const StageProblem problem = chain(4, {100, 100, 100, 100});
  StagePlan plan = allocated({0, 1, 1, 0}, "zb-v");
  ASSERT_TRUE(testing::judge(problem, plan));
  EXPECT_GE(plan.step_ns, 8 * 2 * 300 + 100);
  EXPECT_LE(plan.step_ns, 8 * 2 * 300 + 4 * 100);
  // Two stages of a device have one peak. Each holds 2 * 2 chunks of 50 at most, beside parameters and gradients.
  EXPECT_EQ(plan.stages[0].peak_bytes, plan.stages[3].peak_bytes);
  EXPECT_EQ(plan.stages[1].peak_bytes, plan.stages[2].peak_bytes);
  StagePlan loop = allocated({0, 1, 0, 1}, "interleaved");
  ASSERT_TRUE(testing::judge(problem, loop));
  StagePlan straight = allocated({0, 1}, "1f1b");
  straight.stages[0].end = straight.stages[1].first = 2;
  straight.stages[1].end = 4;
  ASSERT_TRUE(testing::judge(problem, straight));
  EXPECT_LT(loop.step_ns, straight.step_ns) << "half the bubble";
  EXPECT_LT(plan.step_ns, loop.step_ns);
}

// Beaumont 6: a chain of loads 1, 2, 1 on two devices has period 2 if the outer stages share one, otherwise 3.
TEST(SharedDevices, NonContiguousAllocationsHaveTheShorterPeriod) {
  StageProblem problem = chain(3, {100, 200, 100});
  problem.objective = Objective::kPeriod;
  AutoOptions options;
  options.schedules = {"1f1b", "periodic"};
  const auto outcome = auto_planner(options)->plan(problem);
  ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  const StagePlan& plan = std::get<StagePlan>(*outcome);
  EXPECT_EQ(places_of(plan).of_stage, (std::vector<uint32_t>{0, 1, 0}));
  EXPECT_NEAR(plan.objective, 8 * 600, 10);
  options.schedules = {"1f1b"};
  const auto contiguous = auto_planner(options)->plan(problem);
  EXPECT_NEAR(std::get<StagePlan>(*contiguous).objective, 8 * 900, 10);
}

TEST(SharedDevices, ARequestedPeriodMustSuffice) {
  StageProblem problem = chain(4, {100, 100, 100, 100});
  problem.schedule_parameters.period_ns = 500;
  StagePlan plan = allocated({0, 1, 0, 1}, "periodic");
  std::string why;
  EXPECT_FALSE(testing::judge(problem, plan, &why));
  EXPECT_EQ(why, "the busiest device needs 0.001 ms a period of 0.001 ms");
  problem.schedule_parameters.period_ns = 800;
  EXPECT_TRUE(testing::judge(problem, plan));
}

// The rule of a family and its rows agree on the peaks of stages that have devices of their own.
TEST(RowPeaks, EqualTheRuleOfTheSchedule) {
  std::mt19937_64 random(3);
  for (const ScheduleFamily& family : schedule_families()) {
    if (!family.held) continue;
    for (uint32_t round = 0; round < 30; ++round) {
      const uint32_t stages = 1 + static_cast<uint32_t>(random() % 5), m = 1 + static_cast<uint32_t>(random() % 12);
      StagePlan plan;
      plan.micro_batches = m;
      plan.schedule = family.name;
      for (uint32_t s = 0; s < stages; ++s) plan.stages.push_back({s, s + 1, {DeviceId(s)}});
      const auto schedule = make_schedule(ir::chain_shape(stages, m), {.name = plan.schedule}).value();
      for (uint32_t s = 0; s < stages; ++s) {
        std::vector<StageBytes> bytes(stages);
        bytes[s] = {static_cast<double>(100 + random() % 50), static_cast<double>(random() % 50),
                    static_cast<double>(random() % 70), static_cast<double>(random() % 100)};
        const StageId stage(s);
        const double found = row_peak_bytes(schedule.rows[s], {&stage, 1}, bytes, m);
        const auto held = static_cast<double>(held_micro_batches(plan, s));
        if (!family.splits_backward) {
          EXPECT_EQ(found, bytes[s].peak(held, m)) << family.name << ", stage " << s;
          continue;
        }
        const double flying = std::min(held, static_cast<double>(in_flight(*family.held, stages - s, m)));
        EXPECT_LE(found, bytes[s].parted_peak(flying, held - flying)) << family.name << ", stage " << s;
      }
    }
  }
}

// Two stages on a device, followed action by action as in the memory of a finished plan.
TEST(RowPeaks, EqualTheMemoryOfTheSchedule) {
  std::mt19937_64 random(4);
  for (const char* name : {"interleaved", "zb-v", "v-half", "v-min"}) {
    for (uint32_t round = 0; round < 30; ++round) {
      const uint32_t ranks = 1 + static_cast<uint32_t>(random() % 4), m = 1 + static_cast<uint32_t>(random() % 9);
      const StageLayout layout = find_schedule(name)->layout;
      ir::PipelineShape shape = ir::chain_shape(2 * ranks, m);
      shape.devices = ranks;
      std::vector<StageBytes> bytes;
      for (uint32_t s = 0; s < 2 * ranks; ++s) {
        ir::StageShape& stage = shape.stages[s];
        stage.devices = {DeviceId(rank_of(layout, ranks, s))};
        stage.fixed_bytes = static_cast<int64_t>(random() % 100);
        stage.gradient_bytes = static_cast<int64_t>(random() % 100);
        stage.saved_bytes = static_cast<int64_t>(random() % 50);
        stage.pending_bytes = static_cast<int64_t>(random() % 20);
        bytes.push_back(
            {static_cast<double>(stage.fixed_bytes + stage.gradient_bytes), static_cast<double>(stage.saved_bytes),
             static_cast<double>(stage.saved_bytes + stage.pending_bytes), static_cast<double>(stage.gradient_bytes)});
      }
      const ir::Schedule schedule = make_schedule(shape, {.name = name}).value();
      const ir::Dependencies dependencies(shape);
      for (uint32_t d = 0; d < ranks; ++d) {
        const auto stages = dependencies.stages_on(DeviceId(d));
        EXPECT_EQ(row_peak_bytes(schedule.rows[d], stages, bytes, m),
                  static_cast<double>(ir::row_peak(dependencies, schedule, DeviceId(d))))
            << name;
      }
    }
  }
}

TEST(SharedDevices, AnExactNumberOfStagesPerDeviceIsKept) {
  StageProblem problem = chain(8, {100, 100, 100, 100, 100, 100, 100, 100});
  AutoOptions options;
  options.schedules = {"interleaved"};
  for (const uint32_t chunks : {2, 3, 4}) {
    problem.constraints.stages_per_device = chunks;
    for (const auto& planner : {auto_planner(options), exact_planner()}) {
      const auto outcome = planner->plan(problem);
      ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
      const auto* plan = std::get_if<StagePlan>(&*outcome);
      ASSERT_NE(plan, nullptr) << std::get<Infeasible>(*outcome).reason;
      EXPECT_EQ(places_of(*plan).most_stages(), chunks);
      EXPECT_TRUE(suits(plan->schedule, *plan));
    }
  }
  problem.constraints.stages_per_device = 5;
  problem.constraints.stages = 10;
  const auto outcome = auto_planner(options)->plan(problem);
  EXPECT_EQ(std::get<Infeasible>(*outcome).reason, "10 stages were requested; 8 blocks on 2 devices allow at most 8");
}

// Half the bubble: auto interleaves without a request, and splits the backward pass only if the runtime does.
TEST(SharedDevices, CompeteByDefault) {
  StageProblem problem = chain(8, {100, 100, 100, 100, 100, 100, 100, 100});
  problem.parameter_bytes.assign(8, 1e9);  // too much to reduce
  const auto plan_of = [&] { return std::get<StagePlan>(*auto_planner()->plan(problem)); };
  const StagePlan interleaved = plan_of();
  EXPECT_TRUE(interleaved.schedule == "interleaved" || interleaved.schedule == "found") << interleaved.schedule;
  EXPECT_TRUE(places_of(interleaved).shared());
  problem.constraints.stages_per_device = 1;
  const StagePlan separate = plan_of();
  EXPECT_FALSE(places_of(separate).shared());
  EXPECT_LT(interleaved.objective, separate.objective);
  problem.constraints.stages_per_device.reset();
  problem.parts_backward = true;
  const StagePlan parted = plan_of();
  EXPECT_TRUE(parts_backward(parted)) << parted.schedule;
  EXPECT_LT(parted.objective, interleaved.objective);
  for (const StagePlan& plan : {interleaved, separate, parted}) EXPECT_LE(plan.lower_bound, plan.objective);
}

TEST(SharedDevices, ScheduleNamesOfAutoFollowTheRuntime) {
  PlanDemands demands;
  for (const std::string& name : default_schedules(demands)) EXPECT_FALSE(find_schedule(name)->splits_backward) << name;
  demands.parts_backward = true;
  EXPECT_EQ(default_schedules(demands), schedules_of_auto());
}

// The bound over all plans counts sums alone; the one over plans without shared devices stands beside it.
TEST(SharedDevices, TheStrongerBoundIsANote) {
  StageProblem problem = chain(12, std::vector<double>(12, 100));
  problem.parameter_bytes.assign(12, 1e9);
  AutoOptions options;
  options.exhaustive_plans = 10;
  const StagePlan plan = std::get<StagePlan>(*auto_planner(options)->plan(problem));
  const auto found = std::find_if(plan.notes.begin(), plan.notes.end(), [](const std::string& note) {
    return note.starts_with("no plan with one stage per device is below ");
  });
  EXPECT_NE(found, plan.notes.end());
  EXPECT_EQ(plan.bound_name, "work and start of shared devices");
}

// More replicas cost more device time, fewer leave devices without work at the start.
TEST(SharedDevices, TheBoundCountsReplicasAndStarts) {
  int feasible = 0, raised = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed + 77);
    StageProblem problem =
        small_problem(random, {.most_blocks = 4, .most_devices = 3, .unequal = seed % 2 == 0, .skips = seed % 3 == 0});
    problem.sharded = seed % 5 == 0;
    const auto least = least_of(problem, {"1f1b", "gpipe", "interleaved", "zb-v", "v-half", "zb-h2"});
    if (!least) continue;
    ++feasible;
    const Bound bound = PlanJudge(problem).lower_bound({.shared_devices = true});
    EXPECT_LE(bound.value, *least * (1 + 1e-9));
    raised += bound.argument == "work and start of shared devices";
  }
  EXPECT_GE(feasible, 300);
  EXPECT_GE(raised, feasible / 4);
}

// Devices that hold a part of what a mini-batch keeps, so that samples pass in several micro-batches or again.
TEST(SharedDevices, TheBoundKnowsMemory) {
  int feasible = 0, raised = 0;
  for (uint64_t seed = 0; seed < 800; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed + 177);
    StageProblem problem =
        small_problem(random, {.most_blocks = 4, .most_devices = 3, .unequal = seed % 2 == 0, .skips = seed % 3 == 0});
    problem.sharded = seed % 5 == 0;
    problem.recompute = seed % 4 < 2 ? RecomputeRule::kChoose : RecomputeRule::kNever;
    double most = 0;
    for (uint32_t b = 0; b < problem.blocks; ++b) {
      problem.parameter_bytes[b] = static_cast<double>(random() % 20);
      problem.stashed_bytes_per_sample[b] = static_cast<double>(random() % 60);
      most += trained_bytes(problem, b) + problem.stashed_bytes_per_sample[b] * static_cast<double>(problem.mini_batch);
    }
    for (DeviceKind& kind : problem.cluster.kinds)
      kind.memory_bytes = static_cast<uint64_t>(most * static_cast<double>(20 + random() % 60) / 100) + 20;
    const auto least =
        least_of(problem, {"1f1b", "gpipe", "interleaved", "zb-v", "v-half", "zb-h2", "latency", "periodic", "serial"});
    if (!least) continue;
    ++feasible;
    const Bound bound = PlanJudge(problem).lower_bound({.shared_devices = true});
    EXPECT_LE(bound.value, *least * (1 + 1e-9)) << bound.argument;
    raised += bound.argument == "work, memory and one micro-batch together";
  }
  EXPECT_GE(feasible, 300);
  EXPECT_GE(raised, 20);
}

// Too many plans to enumerate: the search must find a start with the demanded replicas.
TEST(SharedDevices, DemandedReplicasAreKept) {
  StageProblem problem = chain(16, std::vector<double>(16, 100));
  problem.cluster = *preset_cluster("flat:4");
  AutoOptions options;
  options.exhaustive_plans = 10;
  const auto devices_of = [&](const std::string& schedule, std::vector<uint32_t> replicas) {
    options.schedules = {schedule};
    problem.constraints.stages = static_cast<uint32_t>(replicas.size());
    problem.constraints.replicas = std::move(replicas);
    problem.mini_batch = 16;
    const auto outcome = auto_planner(options)->plan(problem);
    const auto* plan = std::get_if<StagePlan>(&*outcome);
    return plan == nullptr ? std::vector<uint32_t>{} : places_of(*plan).of_stage;
  };
  using Places = std::vector<uint32_t>;
  EXPECT_EQ(devices_of("zb-v", {1, 2, 2, 1}), (Places{0, 1, 1, 0}));
  EXPECT_EQ(devices_of("interleaved", {1, 2, 1, 2}), (Places{0, 1, 0, 1}));
  problem.constraints.stages_per_device = 2;
  EXPECT_THAT(devices_of("periodic", {2, 2, 2}), ::testing::UnorderedElementsAre(0, 1, ::testing::Le(1)));
  EXPECT_EQ(devices_of("zb-v", {3, 3, 3, 3}), Places{}) << "six devices";
}

// Too many plans to enumerate, and too little memory to keep everything: some start must recompute.
TEST(SharedDevices, WhatFitsWithRecomputeIsFoundByChoice) {
  StageProblem problem = chain(16, std::vector<double>(16, 100));
  problem.constraints.stages_per_device = 2;
  problem.mini_batch = 16;
  problem.micro_batches = {16};
  AutoOptions options;
  options.exhaustive_plans = 10;
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.layout == StageLayout::kOnePerRank || family.needs == ScheduleFamily::Needs::kTable) continue;
    SCOPED_TRACE(family.name);
    options.schedules = {std::string(family.name)};
    int found = 0;
    for (uint64_t memory = 500; memory <= 4000; memory += tests_everything() ? 250 : 750) {
      problem.cluster.kinds[0].memory_bytes = memory;
      const auto has_plan = [&](RecomputeRule rule) {
        problem.recompute = rule;
        return std::holds_alternative<StagePlan>(auto_planner(options)->plan(problem).value());
      };
      const bool expected = has_plan(RecomputeRule::kAlways) || has_plan(RecomputeRule::kNever);
      EXPECT_EQ(has_plan(RecomputeRule::kChoose), expected) << memory;
      found += expected ? 1 : 0;
    }
    EXPECT_GT(found, tests_everything() ? 3 : 1);
  }
}

}  // namespace
}  // namespace rannc::partition
