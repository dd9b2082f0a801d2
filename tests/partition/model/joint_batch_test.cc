// Replicas that normalise together are planned such that each has a sample of every micro-batch.
#include "partition/model/joint_batch.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "ir/verify.h"
#include "partition/cost/analytic.h"
#include "partition/model/model_costs.h"
#include "partition/model/plan_model.h"
#include "partition/stages/registry.h"
#include "tests/support/planning.h"
#include "tests/support/small_plan.h"

namespace rannc::partition {
namespace {

ir::Graph normalised(bool synchronised) {
  return ir::parse_graph(std::string(R"(rannc.graph 1
batch batch
input %x: f32[batch,64] samples 0
parameter %w: f32[64,64]
parameter %s: f32[64]
buffer %rm: f32[64]
buffer %rv: f32[64]
#0 %h: f32[batch,64] samples 0 = core.linear(%x, %w)
#1 %y: f32[batch,64] samples 0, %m: f32[64], %v: f32[64] = core.batch_norm(%h, %s, %s, %rm, %rv) {)") +
                             (synchronised ? "synchronised = true, " : "") + R"(training = true}
#2 %z: f32[batch,64] samples 0 = core.linear(%y, %w)
#3 %l: f32[] partial = core.sum(%z)
inputs [%x]
loss %l weight 0x1p+0
statistics %rm, %rv = %m, %v
)",
                         "t.rir")
      .value();
}

PlanOptions options(uint32_t mini_batch, std::vector<uint64_t> counts = {}) {
  PlanOptions options;
  options.cluster = preset_cluster("rannc-1x8").value().first(4);
  options.costs = analytic_costs();
  options.mini_batch = mini_batch;
  options.micro_batches = std::move(counts);
  return options;
}

using Counts = std::vector<uint64_t>;

TEST(JointBatch, LeavesCountsThatDivideTheMiniBatch) {
  const ir::Graph together = normalised(true), apart = normalised(false);
  EXPECT_EQ(with_joint_batch(together, options(12)).micro_batches, (Counts{1, 2, 4}));
  EXPECT_EQ(with_joint_batch(together, options(7, {2, 3, 7})).micro_batches, (Counts{7}));
  EXPECT_EQ(with_joint_batch(together, options(7, {2, 3})).micro_batches, (Counts{2, 3}))
      << "the plan says what is wrong";
  EXPECT_EQ(with_joint_batch(apart, options(12)).micro_batches, Counts{});
  PlanOptions alone = options(12);
  alone.cluster = alone.cluster.first(1);
  EXPECT_EQ(with_joint_batch(together, alone).micro_batches, Counts{});
  PlanOptions evaluated = options(12);
  evaluated.training = false;
  EXPECT_EQ(with_joint_batch(together, evaluated).micro_batches, Counts{});
}

TEST(JointBatch, KnowsTheReplicasThatAreAskedFor) {
  PlanOptions requested = options(7, {1, 2, 3, 4});
  requested.constraints.stages = 2;
  requested.constraints.replicas = {1, 2};
  EXPECT_EQ(with_joint_batch(normalised(true), requested).micro_batches, (Counts{1, 2, 3}));
}

// 7 samples in 4 micro-batches, the last of which has one: two replicas of a stage could not share it.
TEST(JointBatch, EveryPlannersPlanVerifies) {
  for (const bool synchronised : {false, true}) {
    const ir::Graph graph = normalised(synchronised);
    for (const std::string& planner : stage_planner_names()) {
      for (const uint32_t mini_batch : {7U, 8U, 12U}) {
        SCOPED_TRACE(::testing::Message() << planner << " " << mini_batch << " synchronised " << synchronised);
        PlanOptions wanted = options(mini_batch);
        wanted.planner = planner;
        const auto outcome = plan_model(graph, testing::atoms_of(graph), test::with_passes(graph, wanted));
        if (planner == "rannc-paper" && synchronised && !outcome.ok()) {  // its counts are those of the paper
          EXPECT_EQ(outcome.diagnostic().rule, "P18");
          continue;
        }
        ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
        const auto* planned = std::get_if<PlannedModel>(&*outcome);
        if (planned == nullptr) continue;
        EXPECT_TRUE(ir::verify(planned->plan).empty());
      }
    }
  }
}

// A profile of the plain model prices the other.
TEST(JointBatch, CostsWhatItCostsApart) {
  const ir::Graph together = normalised(true), apart = normalised(false);
  const std::vector<ir::GradientRole> roles(together.value_count(), ir::GradientRole::kSample);
  EXPECT_EQ(structural_key(together, TaskId(1), roles), structural_key(apart, TaskId(1), roles));
}

TEST(JointBatch, WhatCannotBeIsAnErrorByName) {
  const ir::Graph graph = normalised(true);
  PlanOptions wanted = options(7, {2});
  wanted.constraints.stages = 1;
  wanted.constraints.replicas = {4};
  const auto outcome = plan_model(graph, testing::atoms_of(graph), test::with_passes(graph, wanted));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.diagnostic().rule, "P18") << outcome.diagnostic().str();
}

}  // namespace
}  // namespace rannc::partition
