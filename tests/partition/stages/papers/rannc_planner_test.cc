// The corrected Algorithms 1 and 2 against exhaustive search.
#include <gtest/gtest.h>

#include "partition/stages/covers/threshold_search.h"
#include "partition/stages/planner.h"
#include "tests/partition/stages/support/oracle.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

using testing::RandomOptions;

/// Compares on `count` random problems; returns how many were feasible.
int compare(uint64_t seed, int count, const RandomOptions& options) {
  int feasible = 0;
  const auto planner = rannc_planner();
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " instance " + std::to_string(i));
    std::mt19937_64 random(seed * 1'000'003 + static_cast<uint64_t>(i));
    const StageProblem problem = testing::random_problem(random, options);
    const Result<StageOutcome> outcome = planner->plan(problem);
    EXPECT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    if (!outcome.ok()) return feasible;
    const auto least = testing::least_fill_drain(problem);
    const auto* plan = std::get_if<StagePlan>(&*outcome);
    EXPECT_EQ(plan != nullptr, least.has_value());
    if (plan == nullptr || !least) continue;
    ++feasible;
    EXPECT_NEAR(plan->objective, *least, 1e-9 * std::max(1.0, *least)) << brief(*plan);
    EXPECT_EQ(plan->objective, plan->lower_bound);
    if (::testing::Test::HasFailure()) return feasible;
  }
  return feasible;
}

TEST(RanncPlanner, EqualsExhaustiveSearchOnChains) { EXPECT_GE(compare(1, 600, {}), 575); }

TEST(RanncPlanner, EqualsExhaustiveSearchOnDags) { EXPECT_GE(compare(2, 600, {.skips = true}), 575); }

TEST(RanncPlanner, EqualsExhaustiveSearchUnderTightMemory) {
  const int feasible = compare(3, 600, {.tight = true, .skips = true});
  EXPECT_GE(feasible, 150);
  EXPECT_LE(feasible, 590);
}

TEST(RanncPlanner, EqualsExhaustiveSearchOnUnequalDevicesAndLinks) {
  EXPECT_GE(compare(4, 400, {.most_blocks = 5, .unequal = true, .skips = true}), 380);
  EXPECT_GE(compare(5, 400, {.most_blocks = 5, .unequal = true, .tight = true}), 100);
}

StageProblem chain(std::vector<double> forward, std::vector<double> backward, uint32_t devices) {
  StageProblem problem;
  problem.blocks = static_cast<uint32_t>(forward.size());
  problem.times.push_back({{1}, {std::move(forward)}, {std::move(backward)}});
  problem.parameter_bytes.assign(problem.blocks, 0);
  problem.stashed_bytes_per_sample.assign(problem.blocks, 0);
  problem.cluster = *preset_cluster("flat:" + std::to_string(devices));
  problem.micro_batches = {1};
  return problem;
}

// One (tf, tb) per state keeps (1, 10) of the prefixes (1, 10) and (6, 6) and ends at 16; 12 is possible.
TEST(RanncPlanner, KeepsMoreThanOnePrefixPerState) {
  StageProblem problem = chain({1, 0, 6}, {6, 4, 1}, 2);
  problem.constraints.stages = 2;
  const auto outcome = rannc_planner()->plan(problem);
  const auto& plan = std::get<StagePlan>(*outcome);
  EXPECT_DOUBLE_EQ(plan.objective, 2 * (6 + 6));
  EXPECT_EQ(plan.stages[1].first, 1u);
}

TEST(RanncPlanner, FixedReplicasAndStagesAreKept) {
  StageProblem problem = chain({4, 4, 4, 4}, {8, 8, 8, 8}, 8);
  problem.mini_batch = 16;
  problem.constraints.stages = 3;
  problem.constraints.replicas = {1, 3, 2};
  const auto outcome = rannc_planner()->plan(problem);
  const auto& plan = std::get<StagePlan>(*outcome);
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.stages[0].devices.size(), 1u);
  EXPECT_EQ(plan.stages[1].devices.size(), 3u);
  EXPECT_EQ(plan.stages[2].devices.size(), 2u);
}

TEST(RanncPlanner, PinnedBlocksLieInTheirStages) {
  StageProblem problem = chain({4, 4, 4, 4}, {8, 8, 8, 8}, 3);
  problem.mini_batch = 16;
  problem.constraints.stages = 3;
  problem.constraints.pins = {{0, 0}, {1, 0}, {2, 1}};
  const auto outcome = rannc_planner()->plan(problem);
  const auto& plan = std::get<StagePlan>(*outcome);
  EXPECT_EQ(brief(plan), "1:1:1 at 2,3");
  problem.constraints.pins = {{0, 1}};
  EXPECT_NE(std::get<Infeasible>(*rannc_planner()->plan(problem)).reason.find("constraints"), std::string::npos);
  problem.constraints.pins = {{2, 1}, {3, 0}};
  EXPECT_EQ(rannc_planner()->plan(problem).diagnostic().rule, "C5");
}

TEST(RanncPlanner, InfeasibleSaysHowManyBytesAreMissing) {
  StageProblem problem = chain({1, 1}, {1, 1}, 2);
  problem.parameter_bytes = {1000, 3000};
  problem.constraints.memory_bytes = 10000;  // block 1 needs 3000 * 4
  const auto outcome = rannc_planner()->plan(problem);
  const auto& none = std::get<Infeasible>(*outcome);
  EXPECT_NEAR(none.missing_bytes, 2000, 1);
  EXPECT_NE(none.reason.find("offers 10000 bytes"), std::string::npos) << none.reason;
  EXPECT_FALSE(none.help.empty());
}

TEST(RanncPlanner, MoreStagesThanBlocksAreInfeasible) {
  StageProblem problem = chain({1, 1}, {1, 1}, 4);
  problem.constraints.stages = 3;
  const auto outcome = rannc_planner()->plan(problem);
  EXPECT_NE(std::get<Infeasible>(*outcome).reason.find("3 stages were requested"), std::string::npos);
}

// Thousands of devices on unequal links: planned, and the plan says that exactness was given up.
TEST(RanncPlanner, LargeHierarchicalClustersArePricedCoarsely) {
  StageProblem problem = chain(std::vector<double>(40, 1e6), std::vector<double>(40, 2e6), 1);
  problem.cluster = make_cluster("big", {"d", 1ull << 40, 1e12, 1e12, 0}, 512, 8, {25e9, 5000}, {12e9, 10000});
  problem.mini_batch = 8192;
  problem.micro_batches = {4, 16, 64};
  const auto outcome = rannc_planner()->plan(problem);
  const auto& plan = std::get<StagePlan>(*outcome);
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_NE(plan.notes[0].find("exactness is given up"), std::string::npos);
}

TEST(PositionalCover, EndsWhereItIsAsked) {
  StageProblem problem = chain(std::vector<double>(6, 1e6), std::vector<double>(6, 2e6), 1);
  problem.cluster = make_cluster("big", {"d", 1ull << 40, 1e12, 1e12, 0}, 2, 2, {25e9, 5000}, {12e9, 10000});
  const RangeCosts ranges(problem);
  const auto finder = positional_cover(problem, ranges, 1, 4, 1);
  const TimeLimits any{1e18, 1e18, 1e18};
  std::stop_source stop;
  stop.request_stop();
  finder->stop_on(stop.get_token());
  EXPECT_FALSE(finder->find(any, {2, 2}));
  EXPECT_TRUE(finder->interrupted());
  finder->stop_on({});
  EXPECT_TRUE(finder->find(any, {2, 2}));
  EXPECT_FALSE(finder->interrupted());
}

/// Finds one cover of 10 + 10 ns, and is stopped in the second query.
class StoppedFinder final : public CoverFinder {
 public:
  explicit StoppedFinder(std::stop_source& stop) : CoverFinder(4), source_(stop) {}
  std::optional<Cover> find(const TimeLimits&, StageCount) override {
    if (++queries > 1) source_.request_stop();
    if (stopped()) return std::nullopt;
    return Cover{{CoveredStage{}}, 10, 10};
  }
  void set_memory(std::optional<double>) override {}
  double least_step_ns() const override { return 5; }

  int queries = 0;

 private:
  std::stop_source& source_;
};

TEST(ThresholdSearch, AQueryThatWasInterruptedProvesNothing) {
  std::stop_source stop;
  StoppedFinder finder(stop);
  const auto answer = minimise_fill_drain({&finder}, {1, 1}, {.stop = stop.get_token()});
  ASSERT_TRUE(answer);
  EXPECT_EQ(finder.queries, 2);
  EXPECT_EQ(answer->objective, 4 * 20);
  EXPECT_EQ(answer->lower_bound, 4 * 5);
}

TEST(RanncPlanner, SamePlanOnEveryRun) {
  std::mt19937_64 random(7);
  const StageProblem problem = testing::random_problem(random, {.most_blocks = 6, .skips = true});
  const auto planner = rannc_planner();
  EXPECT_EQ(*planner->plan(problem), *planner->plan(problem));
}

// Costs of any size give a plan, not an overflow.
TEST(RanncPlanner, HugeAndZeroCosts) {
  for (const double cost : {0.0, 1e-30, 1e30}) {
    const auto outcome = rannc_planner()->plan(chain({cost, cost, cost}, {cost, cost, cost}, 3));
    ASSERT_TRUE(outcome.ok());
    EXPECT_TRUE(std::holds_alternative<StagePlan>(*outcome)) << cost;
  }
}

}  // namespace
}  // namespace rannc::partition
