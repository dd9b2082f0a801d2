// What a plan counts as memory, and what it does where memory is short.
#include <cmath>
#include <string_view>

#include "ir/plan/nccl_memory.h"
#include "ir/schedule/schedule_memory.h"
#include "tests/partition/model/planned_models.h"

namespace rannc::test {
namespace {

constexpr double kParameterBytes = 4;

// One device: all that differs is the optimizer's state. 16 samples keep more than the optimizer needs for its step.
TEST(PlanMemory, OptimizerStateCounts) {
  const Prepared model = small_bert();
  auto options = options_for("flat:1", 16);
  options.micro_batches = {1};
  const double parameters = static_cast<double>(model.elements(ir::ValueKind::kParameter));
  options.optimizer.name = "sgd";
  const double without = static_cast<double>(fullest(planned(model, options).plan));
  const std::pair<uint32_t, ir::PlanOptimizer> optimizers[] = {{1, {"sgd", 0.5, false, {}}},
                                                               {1, {"lion", 0, false, {}}},
                                                               {2, {"adam", 0, false, {}}},
                                                               {3, {"adamw", 0, true, {}}},
                                                               {3, {"adam", 0, false, {.average = 0.9}}}};
  for (const auto& [states, optimizer] : optimizers) {
    options.optimizer = optimizer;
    const double with = static_cast<double>(fullest(planned(model, options).plan));
    EXPECT_DOUBLE_EQ(with - without, states * parameters * kParameterBytes);
  }
}

// The same two stages fill and drain 8 micro-batches: recomputing stages hold their inputs instead of their stash.
TEST(PlanMemory, RecomputeTradesTimeForMemory) {
  const Prepared model = small_bert();
  auto options = options_for("flat:2", 8);
  options.micro_batches = {8};
  options.constraints.stages = 2;
  options.schedule = "gpipe";
  options.recompute = partition::RecomputeRule::kNever;
  const auto kept = planned(model, options).plan;
  options.recompute = partition::RecomputeRule::kAlways;
  const auto again = planned(model, options).plan;
  EXPECT_LT(fullest(again), fullest(kept));
  EXPECT_GT(again.step_ns, kept.step_ns);
}

// Inference holds weights once, keeps nothing for a backward pass, and needs what one forward pass passes on.
TEST(PlanMemory, InferenceHoldsWeightsOnce) {
  const Prepared model = small_bert();
  auto options = options_for("flat:1", 1);
  options.training = false;
  const auto plan = planned(model, options);
  const uint64_t weights = model.elements(ir::ValueKind::kParameter) * 4;
  const uint64_t passing = plan.plan.stage_times[0].peaks.usual[ir::ProgramKind::kEvaluate];
  EXPECT_GE(fullest(plan.plan), weights + passing);
  EXPECT_LE(fullest(plan.plan), weights + passing + weights / 100) << "small constants";
  EXPECT_EQ(plan.plan.stage_times[0].stashed_bytes, 0);
  options.training = true;
  EXPECT_LT(passing, planned(model, options).plan.stage_times[0].peaks.usual[ir::ProgramKind::kForward]);
  EXPECT_EQ(plan.stages.stages[0].backward_ns, 0);
}

// Two blocks hold half of the model each, which no device holds: more are cut, and a remark says so.
TEST(PlanMemory, MoreBlocksAreCutWhereTheAskedDoNotFit) {
  const Prepared model = small_bert();
  auto options = options_for("flat:8", 64);
  options.blocks = 2;
  options.constraints.memory_bytes =
      static_cast<uint64_t>(static_cast<double>(model.elements(ir::ValueKind::kParameter)) * kParameterBytes * 4 / 2.5);
  const auto plan = planned(model, options);
  EXPECT_GT(plan.blocks.partition.count, 2U);
  ASSERT_EQ(plan.remarks.size(), 1U);
  EXPECT_EQ(plan.remarks[0].find("2 blocks"), 0U) << plan.remarks[0];
}

// Beside what the plan holds: a limit that leaves no room for it is another plan's.
TEST(PlanMemory, WorkspacesOfLibrariesCount) {
  const Prepared model = small_bert();
  auto options = options_for("flat:2", 16);
  const uint64_t without = fullest(planned(model, options).plan);
  const uint64_t workspace = without / 8;
  options.cluster.kinds[0].workspace_bytes = workspace;
  EXPECT_EQ(fullest(planned(model, options).plan), without + workspace);
  options.constraints.memory_bytes = without + workspace - 1;
  const auto tight = planned(model, options).plan;
  EXPECT_LT(fullest(tight), without + workspace);
}

// Tensors in blocks of the allocator, and beside them NCCL's buffers and the ends of the allocator's pools.
TEST(PlanMemory, WhatGpusReserveCounts) {
  const Prepared model = small_bert();
  for (const char* cluster : {"flat:2", "h200-2"}) {
    auto options = options_for(cluster, 16);
    options.constraints.stages = 2;
    const ir::Plan plan = planned(model, options).plan;
    const ir::PipelineShape shape = ir::pipeline_shape(plan);
    const ir::Dependencies dependencies(shape);
    const bool on_gpus = ir::device_type(plan) == ir::DeviceType::kCuda;
    EXPECT_EQ(on_gpus, std::string_view(cluster) == "h200-2");
    for (const ir::StageShape& stage : shape.stages) EXPECT_EQ(stage.gradient_bytes % 512 == 0, on_gpus);
    const std::vector<uint64_t> beside = ir::bytes_beside_tensors(plan);
    for (size_t d = 0; d < plan.devices.size(); ++d) {
      EXPECT_EQ(beside[d] > (uint64_t{44} << 20), on_gpus) << "with buffers for the other stage";
      const auto tensors = static_cast<uint64_t>(ir::row_peak(dependencies, plan.schedule, DeviceId::from(d)));
      EXPECT_EQ(plan.predictions[d].peak_bytes, tensors + options.cluster.kinds[0].workspace_bytes + beside[d]);
    }
  }
}

// Each limit is one that the plan before it breaks.
TEST(PlanMemory, NoDeviceIsPlannedBeyondTheLimit) {
  const Prepared model = small_bert();
  auto options = options_for("flat:4", 16);
  uint64_t limit = fullest(planned(model, options).plan);
  for (int i = 0; i < 3; ++i) {
    limit = limit * 4 / 5;
    options.constraints.memory_bytes = limit;
    const auto plan = planned(model, options).plan;
    ASSERT_EQ(plan.predictions.size(), plan.devices.size());
    for (const auto& prediction : plan.predictions) EXPECT_LE(prediction.peak_bytes, limit);
    limit = std::min(limit, fullest(plan));
  }
}

TEST(PlanMemory, AModelLargerThanAllDevicesIsRefusedByItsSum) {
  const Prepared model = small_bert();
  auto options = options_for("flat:2", 8);
  options.constraints.memory_bytes = 1 << 18;
  const auto refusal = refused(model, options);
  EXPECT_NE(refusal.reason.find("the 2 devices together hold"), std::string::npos) << refusal.reason;
  const double needed = static_cast<double>(model.elements(ir::ValueKind::kParameter)) * kParameterBytes * 4;
  EXPECT_NEAR(refusal.missing_bytes, needed - 2 * (1 << 18), 1);
}

TEST(PlanMemory, ATaskThatFitsNoDeviceIsNamed) {
  const Prepared model = small_bert();
  auto options = options_for("flat:64", 8);
  options.constraints.memory_bytes = 1 << 17;
  const auto refusal = refused(model, options);
  EXPECT_NE(refusal.reason.find("alone needs"), std::string::npos) << refusal.reason;
  EXPECT_GT(refusal.missing_bytes, 0);
}

}  // namespace
}  // namespace rannc::test
