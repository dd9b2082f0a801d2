// The printed Algorithms 1 and 2: goldens of their own, and what the corrected planner gains.
#include "partition/stages/papers/rannc_paper.h"

#include <gtest/gtest.h>

#include "tests/partition/stages/support/oracle.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

StageProblem chain(std::vector<double> forward, std::vector<double> backward, uint32_t devices) {
  StageProblem problem;
  problem.blocks = static_cast<uint32_t>(forward.size());
  problem.times.push_back({{1}, {std::move(forward)}, {std::move(backward)}});
  problem.parameter_bytes.assign(problem.blocks, 0);
  problem.stashed_bytes_per_sample.assign(problem.blocks, 0);
  problem.cluster = *preset_cluster("flat:" + std::to_string(devices));
  return problem;
}

// 1: the first stage starts anywhere, so the heavy leading block is left to nobody.
TEST(RanncPaper, PrintedFirstStageSkipsBlocks) {
  const StageProblem problem = chain({9, 1, 1}, {9, 1, 1}, 2);
  const auto printed = form_stage_dp(problem, {2, 2, 1, 1, 1, false}, PaperReading::kPrinted);
  ASSERT_TRUE(printed);
  EXPECT_EQ(printed->first_block, 1u);
  EXPECT_DOUBLE_EQ(printed->v, 2);
  const auto anchored = form_stage_dp(problem, {2, 2, 1, 1, 1, false}, PaperReading::kAnchored);
  EXPECT_EQ(anchored->first_block, 0u);
  EXPECT_DOUBLE_EQ(anchored->v, 18);
  EXPECT_EQ(anchored->ends, (std::vector<uint32_t>{1, 3}));
}

// Shares are rounded down: two replicas of one sample cost nothing, so Algorithm 2 prefers a plan that cannot run.
TEST(RanncPaper, PrintedReplicasWithoutSamplesAreRefused) {
  const auto outcome = rannc_paper_planner()->plan(chain({9, 1, 1}, {9, 1, 1}, 2));
  EXPECT_NE(std::get<Infeasible>(*outcome).reason.find("assigns 2 replicas to stage 0"), std::string::npos);
}

// Two prefixes of 2 stages on 3 devices: (4, 6) and (2, 10). The printed state keeps the smaller sum and ends at
// (4, 10) once the last stage takes (1, 10); the other prefix ends at (2, 10).
TEST(RanncPaper, KeepsOnePrefixPerState) {
  StageProblem problem = chain({2, 0.5, 0.5}, {3, 5, 5}, 4);
  problem.mini_batch = 2;
  const auto anchored = form_stage_dp(problem, {3, 4, 2, 1, 1, false}, PaperReading::kAnchored);
  EXPECT_DOUBLE_EQ(anchored->v, 14);
  problem.micro_batches = {1};
  problem.constraints.stages = 3;
  const auto outcome = rannc_planner()->plan(problem);
  const auto& exact = std::get<StagePlan>(*outcome);
  EXPECT_DOUBLE_EQ(exact.objective, 3 * 12);
  EXPECT_EQ(brief(exact), "2:1:1 at 1,2");
}

// The anchored reading is never better than the exact planner, and sometimes worse.
TEST(RanncPaper, NeverBeatsTheExactPlanner) {
  int compared = 0, worse = 0;
  for (int i = 0; i < 400; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 90000);
    StageProblem problem = testing::random_problem(random, {.most_blocks = 6, .most_devices = 5});
    problem.values.clear();
    problem.recompute = RecomputeRule::kNever;
    problem.in_flight = InFlight::kAll;
    problem.constraints = {};
    problem.micro_batches.clear();
    const auto paper = rannc_paper_planner(PaperReading::kAnchored)->plan(problem);
    const auto exact = rannc_planner()->plan(problem);
    ASSERT_TRUE(paper.ok() && exact.ok());
    const auto* a = std::get_if<StagePlan>(&*paper);
    const auto* b = std::get_if<StagePlan>(&*exact);
    if (a == nullptr || b == nullptr) continue;
    // Judge the printed plan by the exact planner's prices, which round shares up.
    double forward = 0, backward = 0;
    StageProblem fixed = problem;
    fixed.micro_batches = {a->micro_batches};
    fixed.constraints.stages = static_cast<uint32_t>(a->stages.size());
    for (const PlannedStage& stage : a->stages) {
      fixed.constraints.replicas.push_back(static_cast<uint32_t>(stage.devices.size()));
      forward = std::max(forward, stage.forward_ns);
      backward = std::max(backward, stage.backward_ns);
    }
    const auto repriced = rannc_planner()->plan(fixed);
    const auto* c = std::get_if<StagePlan>(&*repriced);
    ASSERT_NE(c, nullptr);
    ++compared;
    EXPECT_LE(b->objective, c->objective * (1 + 1e-9));
    worse += c->objective > b->objective * (1 + 1e-9);
  }
  EXPECT_GE(compared, 300);
  EXPECT_GE(worse, 20);  // it stops at the first stage count with a solution
}

}  // namespace
}  // namespace rannc::partition
