// The search, its judge and the finished plan divide gradients by the same limit of buckets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "ir/text/text.h"
#include "partition/cost/analytic.h"
#include "partition/model/plan_model.h"
#include "partition/stages/judge/judge.h"
#include "tests/partition/stages/support/judging.h"
#include "tests/support/planning.h"
#include "tests/support/small_plan.h"

namespace rannc::partition {
namespace {

constexpr uint64_t kWeight = 64 * 64 * 4;  // bytes

/// Eight layers, each of which becomes a block with one gradient, and their sum.
ir::Graph layers() {
  std::string text = "rannc.graph 1\nbatch batch\ninput %h0: f32[batch,64] samples 0\n";
  for (int i = 0; i < 8; ++i) text += fmt::format("parameter %w{}: f32[64,64]\n", i);
  for (int i = 0; i < 8; ++i)
    text += fmt::format("#{} %h{}: f32[batch,64] samples 0 = core.linear(%h{}, %w{})\n", i, i + 1, i, i);
  text += "#8 %l: f32[] partial = core.sum(%h8)\ninputs [%h0]\nloss %l weight 0x1p+0\n";
  return ir::parse_graph(text, "layers.rir").value();
}

/// One stage of two replicas, whose sums take about as long as the backward pass.
PlannedModel planned(uint64_t bucket_bytes) {
  PlanOptions options;
  options.cluster = preset_cluster("rannc-1x8").value().first(2);
  options.cluster.nodes[0].inside = {1e9, 0};
  options.costs = analytic_costs();
  options.mini_batch = 64;
  options.micro_batches = {2};
  options.optimizer.name = "adam";
  options.constraints.stages = 1;
  options.constraints.replicas = {2};
  options.bucket_bytes = bucket_bytes;
  const ir::Graph graph = layers();
  auto outcome = plan_model(graph, rannc::testing::atoms_of(graph), test::with_passes(graph, options)).value();
  return std::get<PlannedModel>(std::move(outcome));
}

TEST(BucketPrices, AreThoseOfTheFinishedPlanWhereBlocksAreBuckets) {
  std::set<int64_t> steps;
  for (const uint64_t weights : {0, 1, 2, 8}) {
    SCOPED_TRACE(weights);
    const PlannedModel found = planned(weights * kWeight);
    ASSERT_EQ(found.problem.blocks, 9u);
    const size_t buckets = weights < 2 ? 8 : 4;  // at most twice the largest gradient
    EXPECT_EQ(found.plan.stages[0].buckets.size(), buckets);
    const auto predicted = static_cast<double>(found.plan.step_ns);
    const double rounded = 4.0 * static_cast<double>(buckets + 2);  // whole nanoseconds of passes and sums
    PlanJudge judge(found.problem);
    StagePlan judged = found.stages;
    const auto whole = testing::judge(judge, judged);
    ASSERT_TRUE(whole);
    EXPECT_NEAR(*whole, predicted, rounded);
    ASSERT_TRUE(testing::take(judge.judge_by_device(judged), judged));
    EXPECT_NEAR(judged.step_ns, predicted, rounded);
    EXPECT_LE(found.stages.lower_bound, judged.step_ns);
    steps.insert(found.plan.step_ns);
  }
  EXPECT_EQ(steps.size(), 2u);
  EXPECT_GT(*steps.rbegin() - *steps.begin(), 1000) << "larger buckets begin later";
}

}  // namespace
}  // namespace rannc::partition
