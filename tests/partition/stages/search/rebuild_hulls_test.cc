// Stages that recompute as much as their memory requires: hulls of stages, the search and its bound against every cut
// with every point of the stages' hulls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "partition/stages/bounds/bounds.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/pricing/range_costs.h"
#include "partition/stages/pricing/stage_hulls.h"
#include "partition/stages/registry.h"
#include "partition/stages/search/auto.h"
#include "tests/partition/stages/bounds/bound_problems.h"
#include "tests/partition/stages/support/judging.h"
#include "tests/partition/stages/support/oracle.h"
#include "tests/support/tier.h"

namespace rannc::partition {
namespace {

using ::rannc::testing::cases_of;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Pointwise;

using Points = std::vector<RebuildPoint>;

/// Up to four points, not all of them on the lower hull. The last one repeats nothing and keeps the block's stash.
Points random_points(std::mt19937_64& random, double stash) {
  Points points = {{stash, 0}};
  for (size_t more = random() % 4; more > 0; --more) {
    const RebuildPoint next{points.back().bytes_per_sample * 0.2 * static_cast<double>(1 + random() % 4),
                            std::min(1.0, points.back().share + 0.05 * static_cast<double>(1 + random() % 7))};
    if (next.bytes_per_sample < points.back().bytes_per_sample && next.share > points.back().share)
      points.push_back(next);
  }
  std::reverse(points.begin(), points.end());
  return points;
}

void add_hulls(StageProblem& problem, std::mt19937_64& random) {
  for (const double stash : problem.stashed_bytes_per_sample)
    problem.rebuild_hulls.push_back(random_points(random, stash));
}

double forward_of(const StageProblem& problem, uint32_t block) { return problem.times[0].forward.back()[block]; }

/// Vertices of the hull of all sums of one point per block, and whole recompute: by definition, without merging.
Points all_sums(const StageProblem& problem, uint32_t a, uint32_t b) {
  double forward = 0;
  Points sums = {{0, 0}};  // `share` holds ns
  for (uint32_t block = a; block < b; ++block) {
    forward += forward_of(problem, block);
    Points next;
    for (const RebuildPoint& sum : sums) {
      for (const RebuildPoint& point : problem.rebuild_hulls[block]) {
        next.push_back(
            {sum.bytes_per_sample + point.bytes_per_sample, sum.share + point.share * forward_of(problem, block)});
      }
    }
    sums = std::move(next);
  }
  for (RebuildPoint& sum : sums) sum.share /= forward;
  Points vertices;
  for (const RebuildPoint& point : sums) {
    // A vertex: no other point is at most as large in both, and no chord passes below or through it.
    const bool inner = std::any_of(sums.begin(), sums.end(), [&](const RebuildPoint& left) {
      if (&left == &point) return false;
      if (left.bytes_per_sample <= point.bytes_per_sample + 1e-9 && left.share <= point.share + 1e-12) {
        const bool same = left.bytes_per_sample > point.bytes_per_sample - 1e-9 && left.share > point.share - 1e-12;
        return !same || &left < &point;
      }
      if (left.bytes_per_sample >= point.bytes_per_sample) return false;
      return std::any_of(sums.begin(), sums.end(), [&](const RebuildPoint& right) {
        if (right.bytes_per_sample <= point.bytes_per_sample || right.share >= left.share) return false;
        const double along =
            (point.bytes_per_sample - left.bytes_per_sample) / (right.bytes_per_sample - left.bytes_per_sample);
        return left.share + along * (right.share - left.share) <= point.share + 1e-12;
      });
    });
    if (!inner) vertices.push_back(point);
  }
  std::sort(vertices.begin(), vertices.end(),
            [](const auto& one, const auto& other) { return one.bytes_per_sample < other.bytes_per_sample; });
  vertices.insert(vertices.begin(), {0, 1});
  return vertices;
}

StageProblem selective_problem(std::mt19937_64& random, bool unequal) {
  StageProblem problem = testing::tight_problem(random, unequal);
  add_hulls(problem, random);
  return problem;
}

TEST(StageHulls, HaveEveryVertexOfTheSums) {
  for (int i = 0; i < 1000; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 1);
    const StageProblem problem = selective_problem(random, false);
    const StageHulls hulls(problem);
    for (uint32_t a = 0; a < problem.blocks; ++a) {
      for (uint32_t b = a + 1; b <= problem.blocks; ++b) {
        const Points found = hulls.of(a, b);
        for (const RebuildPoint& vertex : all_sums(problem, a, b)) {
          const bool has = std::any_of(found.begin(), found.end(), [&](const RebuildPoint& point) {
            return std::abs(point.bytes_per_sample - vertex.bytes_per_sample) < 1e-6 &&
                   std::abs(point.share - vertex.share) < 1e-9;
          });
          // Sums that keep nothing more or repeat everything are no better than whole recompute.
          if (vertex.bytes_per_sample > 0 && vertex.share < 1) {
            EXPECT_TRUE(has) << i << ": " << vertex.bytes_per_sample << ", " << vertex.share;
          }
        }
        EXPECT_EQ(found.front(), (RebuildPoint{0, 1}));
        EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const RebuildPoint& x, const RebuildPoint& y) {
          return x.bytes_per_sample < y.bytes_per_sample && x.share > y.share;
        }));
      }
    }
  }
}

TEST(StageHulls, TakeTheSteepestBlockFirst) {
  StageProblem problem;
  problem.blocks = 2;
  problem.times.push_back({{1}, {{100, 300}}, {{200, 600}}, {}});
  problem.rebuild_hulls = {{{10, 0.5}, {20, 0}}, {{10, 0.6}, {40, 0.2}, {100, 0}}};
  // Bytes and ns: 20 and 230, then the first block's 50 ns for 10 bytes before the second block's 120 ns for 30.
  const Points found = StageHulls(problem).of(0, 2);
  std::vector<double> bytes, ns;
  for (const RebuildPoint& point : found) {
    bytes.push_back(point.bytes_per_sample);
    ns.push_back(400 * point.share);
  }
  EXPECT_THAT(bytes, ElementsAre(0, 20, 30, 60, 120));
  EXPECT_THAT(ns, Pointwise(DoubleNear(1e-9), {400.0, 230.0, 180.0, 60.0, 0.0}));
  problem.rebuild_hulls.clear();
  EXPECT_TRUE(StageHulls(problem).empty());
}

TEST(LowerBound, IsBelowEveryPlanThatRecomputesInPart) {
  const int instances = cases_of(2000);
  const testing::Tightness found = testing::compare_bounds(selective_problem, instances);
  EXPECT_THAT(found.broken, IsEmpty());
  EXPECT_GE(found.feasible, instances / 2);
  EXPECT_GE(found.uniform_close, 0.7 * found.uniform) << "somewhat less close than where stages repeat all or nothing";
}

/// A problem whose blocks are the stages of a plan, for a chain. A stage that recomputes can keep `kept` more, or what
/// its hull does not provide: nothing.
StageProblem merged(const StageProblem& problem, const StagePlan& plan, const Points& kept) {
  StageProblem stages = problem;
  stages.blocks = static_cast<uint32_t>(plan.stages.size());
  stages.values.clear();
  stages.rebuild_hulls.clear();
  const auto merge = [&](std::vector<double>& blocks) {
    std::vector<double> sums;
    for (const PlannedStage& stage : plan.stages) {
      double sum = 0;
      for (uint32_t b = stage.first; b < stage.end; ++b) sum += blocks[b];
      sums.push_back(sum);
    }
    blocks = std::move(sums);
  };
  merge(stages.parameter_bytes);
  merge(stages.stashed_bytes_per_sample);
  if (!stages.buffer_bytes.empty()) merge(stages.buffer_bytes);
  for (TimeTable& table : stages.times) {
    for (auto* rows : {&table.forward, &table.backward, &table.weight_gradient}) {
      for (auto& row : *rows) merge(row);
    }
  }
  for (const BlockValue& value : problem.values) {
    for (uint32_t s = 0; s + 1 < plan.stages.size(); ++s) {
      if (value.producer + 1 != plan.stages[s].end) continue;
      BlockValue crossing = value;
      crossing.producer = s;
      crossing.readers = {s + 1};
      stages.values.push_back(crossing);
    }
  }
  for (const RebuildPoint& point : kept) stages.rebuild_hulls.push_back({point});
  return stages;
}

/// Small chains on equal devices with links that take no time: what is repeated never makes a plan shorter.
StageProblem chain_problem(std::mt19937_64& random) {
  StageProblem problem = selective_problem(random, false);
  std::vector<BlockValue> chain;
  for (const BlockValue& value : problem.values) {
    if (value.readers != std::vector<uint32_t>{value.producer + 1}) continue;
    chain.push_back(value);
  }
  problem.values = std::move(chain);
  problem.temporary_bytes.clear();
  problem.temporary_bytes_per_sample.clear();
  problem.pending_bytes_per_sample.clear();
  problem.gradient_bytes.clear();
  problem.shared.clear();
  for (TimeTable& table : problem.times) table.weight_gradient.clear();
  problem.cluster = make_cluster("equal", {"d", problem.cluster.kinds[0].memory_bytes, 1e18, 1e18, 0}, 1,
                                 std::min(3U, problem.cluster.size()), {1e18, 0}, {1e18, 0});
  problem.times.resize(1);
  problem.mini_batch = 3 + random() % 4;
  problem.micro_batches = {problem.mini_batch};
  double all = 0;
  for (uint32_t b = 0; b < problem.blocks; ++b)
    all += 4 * problem.parameter_bytes[b] + problem.stashed_bytes_per_sample[b];
  problem.cluster.kinds[0].memory_bytes =
      static_cast<uint64_t>(all * (0.25 + 0.05 * static_cast<double>(random() % 12)));
  return problem;
}

/// The least step over all cuts, replicas, micro-batch counts and choices of a point for each stage that recomputes.
std::optional<double> least_of_all_points(const StageProblem& problem, const std::vector<std::string>& schedules) {
  std::optional<double> least;
  testing::for_each_roomy_plan(problem, [&](const StagePlan& plan) {
    std::vector<Points> choices;
    StagePlan stages = plan;
    for (uint32_t s = 0; s < plan.stages.size(); ++s) {
      stages.stages[s].first = s;
      stages.stages[s].end = s + 1;
      choices.push_back(plan.stages[s].recompute ? all_sums(problem, plan.stages[s].first, plan.stages[s].end)
                                                 : Points{{0, 1}});
    }
    std::vector<size_t> at(choices.size(), 0);
    for (size_t s = 0; s < at.size();) {
      Points kept;
      for (size_t i = 0; i < at.size(); ++i) kept.push_back(choices[i][at[i]]);
      const StageProblem whole = merged(problem, plan, kept);
      PlanJudge judge(whole);
      for (const std::string& schedule : schedules) {
        StagePlan next = stages;
        next.schedule = schedule;
        const auto step = testing::judge_as_run(judge, next);
        if (step && (!least || *step < *least)) least = step;
      }
      for (s = 0; s < at.size() && ++at[s] == choices[s].size(); ++s) at[s] = 0;
    }
  });
  return least;
}

TEST(RebuildHulls, TheSearchFindsTheBestOfAllCutsAndPoints) {
  const std::vector<std::string> schedules = {"1f1b", "gpipe"};
  const int wanted = cases_of(1000);
  int feasible = 0, gained = 0;
  for (int i = 0; i < 10'000 && feasible < wanted; ++i) {
    SCOPED_TRACE(i);
    std::mt19937_64 random(static_cast<uint64_t>(i) * 31 + 5);
    const StageProblem problem = chain_problem(random);
    const auto least = least_of_all_points(problem, schedules);
    AutoOptions options;
    options.schedules = schedules;
    options.exhaustive_plans = 100'000;
    options.simulated_actions = UINT64_MAX;
    const StageOutcome outcome = auto_planner(options)->plan(problem).value();
    const auto* plan = std::get_if<StagePlan>(&outcome);
    ASSERT_EQ(plan != nullptr, least.has_value());
    if (plan == nullptr) continue;
    ++feasible;
    EXPECT_NEAR(plan->step_ns, *least, 1e-9 * *least);
    EXPECT_LE(lower_bound(problem, RangeCosts(problem)).value, *least * (1 + 1e-9));
    StageProblem whole = problem;
    whole.rebuild_hulls.clear();
    const StageOutcome before = auto_planner(options)->plan(whole).value();
    ASSERT_TRUE(std::holds_alternative<StagePlan>(before));
    EXPECT_LE(plan->step_ns, std::get<StagePlan>(before).step_ns * (1 + 1e-9));
    gained += plan->step_ns < 0.999 * std::get<StagePlan>(before).step_ns ? 1 : 0;
  }
  EXPECT_EQ(feasible, wanted);
  EXPECT_GE(gained, wanted / 10);
}

/// Four stages on two devices, the first and the last on device 0. All recompute.
std::optional<StagePlan> v_plan(const StageProblem& problem) {
  if (problem.blocks < 4 || problem.cluster.size() < 2) return std::nullopt;
  StagePlan plan;
  plan.schedule = "zb-v";
  plan.micro_batches = problem.mini_batch;
  const uint32_t middle = problem.blocks / 2;
  const uint32_t ends[] = {1, middle, problem.blocks - 1, problem.blocks}, devices[] = {0, 1, 1, 0};
  for (uint32_t s = 0; s < 4; ++s)
    plan.stages.push_back({s == 0 ? 0 : ends[s - 1], ends[s], {DeviceId(devices[s])}, true});
  return plan;
}

/// The least step of the plan's cuts over all choices of a point for each stage.
std::optional<double> least_of_points(const StageProblem& problem, const StagePlan& plan) {
  std::vector<Points> choices;
  StagePlan stages = plan;
  for (uint32_t s = 0; s < plan.stages.size(); ++s) {
    stages.stages[s].first = s;
    stages.stages[s].end = s + 1;
    choices.push_back(all_sums(problem, plan.stages[s].first, plan.stages[s].end));
  }
  std::optional<double> least;
  std::vector<size_t> at(choices.size(), 0);
  for (size_t s = 0; s < at.size();) {
    Points kept;
    for (size_t i = 0; i < at.size(); ++i) kept.push_back(choices[i][at[i]]);
    const StageProblem whole = merged(problem, plan, kept);
    StagePlan next = stages;
    const auto step = testing::judge(whole, next);
    if (step && (!least || *step < *least)) least = step;
    for (s = 0; s < at.size() && ++at[s] == choices[s].size(); ++s) at[s] = 0;
  }
  return least;
}

TEST(RebuildHulls, StagesThatShareDevicesRepeatLittle) {
  int judged = 0, gained = 0, best = 0;
  for (int i = 0; i < 20'000 && judged < 300; ++i) {
    SCOPED_TRACE(i);
    std::mt19937_64 random(static_cast<uint64_t>(i) * 17 + 3);
    const StageProblem problem = chain_problem(random);
    const auto plan = v_plan(problem);
    if (!plan) continue;
    StageProblem unknown = problem;
    unknown.rebuild_hulls.clear();
    StagePlan whole = *plan, in_part = *plan;
    const auto slow = testing::judge(unknown, whole), fast = testing::judge(problem, in_part);
    ASSERT_TRUE(fast || !slow);
    if (!slow) continue;
    ++judged;
    for (const PlannedStage& stage : in_part.stages)
      EXPECT_LE(stage.peak_bytes, static_cast<double>(problem.cluster.kinds[0].memory_bytes));
    EXPECT_LE(*fast, *slow * (1 + 1e-9));
    gained += *fast < 0.999 * *slow ? 1 : 0;
    const auto least = least_of_points(problem, *plan);
    ASSERT_TRUE(least);
    best += *fast <= 1.001 * *least ? 1 : 0;
  }
  EXPECT_EQ(judged, 300);
  EXPECT_GE(gained, 250);
  EXPECT_GE(best, 270) << "steps by descending time per byte miss the best choice only where points are far apart";
}

/// Eight equal blocks on two devices. A tenth of the stash saves half of the rebuild, half of the stash nine tenths.
StageProblem eight_blocks(uint64_t memory) {
  StageProblem problem;
  problem.blocks = 8;
  problem.times.push_back({{1}, {std::vector<double>(8, 100)}, {std::vector<double>(8, 200)}, {}});
  problem.parameter_bytes.assign(8, 10);
  problem.stashed_bytes_per_sample.assign(8, 50);
  for (uint32_t b = 0; b < 7; ++b) problem.values.push_back({b, {b + 1}, 1, 0, true});
  problem.cluster = make_cluster("two", {"d", memory, 1e12, 1e15, 0}, 1, 2, {1e12, 0}, {1e12, 0});
  problem.mini_batch = 16;
  problem.micro_batches = {16};
  problem.recompute = RecomputeRule::kChoose;
  problem.rebuild_hulls.assign(8, {{5, 0.5}, {25, 0.1}, {50, 0}});
  return problem;
}

// Of two stages of four blocks, the first has 160 bytes of state and 200 for each of two micro-batches in flight. 128
// bytes are left for one of them. It would repeat all of its 400 ns as a whole, and less than a tenth in part.
TEST(RebuildHulls, FindAnotherCutThanWholeRecompute) {
  StageProblem problem = eight_blocks(160 + 200 + 130);
  const auto plan_of = [](const StageProblem& of) {
    AutoOptions options;
    options.schedules = {"1f1b"};
    return std::get<StagePlan>(auto_planner(options)->plan(of).value());
  };
  const StagePlan in_part = plan_of(problem);
  problem.rebuild_hulls.clear();
  const StagePlan whole = plan_of(problem);
  EXPECT_LT(in_part.step_ns, 0.99 * whole.step_ns);
  EXPECT_NE(brief(in_part), brief(whole));
  EXPECT_LE(in_part.lower_bound, in_part.objective);
}

TEST(RebuildHulls, ChangeNothingWhereEverythingFits) {
  StageProblem problem = eight_blocks(100'000);
  const auto plan_of = [&problem] {
    auto plan = std::get<StagePlan>(make_planner("auto")->plan(problem).value());
    plan.finalists.clear();  // those that recompute differ
    return plan;
  };
  const StagePlan in_part = plan_of();
  problem.rebuild_hulls.clear();
  EXPECT_EQ(in_part, plan_of());
  EXPECT_THAT(in_part.stages, Each(Field(&PlannedStage::recompute, false)));
}

}  // namespace
}  // namespace rannc::partition
