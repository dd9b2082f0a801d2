// What measuring a whole plan side by side finds for every kind of stage.
#include "runtime/measure/measure_stages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "codegen/bundle_writer.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tools/common/scratch.h"

namespace rannc::runtime {
namespace {

using testing::build_plan;
using testing::PlanSpec;

// Times that no measurement gives: whatever stays of them was not measured.
constexpr int64_t kUnset = 123456789012345678;

ir::Plan planned(const PlanSpec& spec) {
  ir::Plan plan = build_plan(testing::skip_and_tie(ir::DType::kF32), spec);
  plan.stage_times.clear();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto replicas = static_cast<uint32_t>(plan.stages[s].devices.size());
    std::set<uint32_t, std::greater<>> shares;
    for (const uint32_t samples : plan.micro_batches) shares.insert((samples + replicas - 1) / replicas);
    for (const uint32_t share : shares) {
      ir::StageTime time{StageId::from(s), share, kUnset, plan.training ? kUnset : 0};
      time.stashed_bytes = 77;
      plan.stage_times.push_back(time);
    }
  }
  return plan;
}

MeasuredStages measured(const ir::Plan& plan) {
  const tools::Scratch scratch;
  const std::string path = (std::filesystem::path(scratch.path()) / "toy.rannc").string();
  codegen::write_bundle(plan, {}, path).value();
  return measure_stages(open_bundle(path).value(), {}).value();
}

void expect_all_measured(const ir::Plan& plan, const MeasuredStages& found) {
  ASSERT_EQ(found.stage_times.size(), plan.stage_times.size());
  for (size_t i = 0; i < found.stage_times.size(); ++i) {
    const ir::StageTime& time = found.stage_times[i];
    EXPECT_EQ(time.stage, plan.stage_times[i].stage);
    EXPECT_EQ(time.samples, plan.stage_times[i].samples);
    EXPECT_EQ(time.stashed_bytes, 77U) << "memory is not measured here";
    EXPECT_GT(time.forward_ns, 0);
    EXPECT_LT(time.forward_ns, kUnset);
    if (!plan.training) continue;
    EXPECT_GT(time.backward_ns, 0);
    EXPECT_LT(time.backward_ns, kUnset);
    EXPECT_LE(time.weight_ns, time.backward_ns);
  }
  ASSERT_EQ(found.finish_times.size(), plan.training ? plan.stages.size() : 0);
  for (const ir::FinishTime& time : found.finish_times) {
    EXPECT_GT(time.optimizer_ns, 0);
    const bool replicated = plan.stages[time.stage.index()].devices.size() > 1;
    EXPECT_EQ(time.all_reduce_ns > 0, replicated);
    EXPECT_LT(time.all_reduce_ns, kUnset);
  }
  ASSERT_EQ(found.shared_ns.size(), plan.training ? plan.shared.size() : 0);
  for (const int64_t time : found.shared_ns) {
    EXPECT_GT(time, 0);
    EXPECT_LT(time, kUnset);
  }
}

TEST(MeasureStages, SplitsPFromTheFirstForwardPass) {
  ir::Plan plan = planned({.cuts = {3}, .micro_batches = {2, 2}});
  EXPECT_TRUE(measured(plan).begin_ns.empty());
  plan.begin_ns = {kUnset, 0};
  const MeasuredStages found = measured(plan);
  ASSERT_EQ(found.begin_ns.size(), 2u);
  EXPECT_GE(found.begin_ns[0], 0);
  EXPECT_LT(found.begin_ns[0], kUnset);
  EXPECT_EQ(found.begin_ns[1], 0) << "the plan has no P there";
  plan = planned({.micro_batches = {4}});
  plan.begin_ns = {kUnset};
  const MeasuredStages whole = measured(plan);
  EXPECT_EQ(whole.begin_ns, std::vector<int64_t>{0}) << "no other forward pass to compare with";
  EXPECT_LT(whole.stage_times[0].forward_ns, kUnset);
}

TEST(MeasureStages, TimesEveryStageSizeAndOptimizer) {
  for (const PlanSpec& spec :
       {PlanSpec{.micro_batches = {4}}, PlanSpec{.cuts = {3}, .micro_batches = {3, 3, 2}},
        PlanSpec{.cuts = {3}, .micro_batches = {2, 2}, .early_backward = false, .recompute = true},
        PlanSpec{.cuts = {3}, .micro_batches = {3, 2}, .split_backward = true},
        PlanSpec{.cuts = {3}, .micro_batches = {2, 2}, .training = false},
        PlanSpec{.cuts = {2, 5}, .replicas = {2, 1, 2}, .micro_batches = {4, 4}}}) {
    const ir::Plan plan = planned(spec);
    expect_all_measured(plan, measured(plan));
  }
}

TEST(MeasureStages, OptimizersAreThoseOfThePlan) {
  for (const std::string_view name : ir::optimizer_names()) {
    ir::Plan plan = planned({.cuts = {3}, .micro_batches = {2, 2}});
    plan.optimizer.name = name;
    expect_all_measured(plan, measured(plan));
  }
}

}  // namespace
}  // namespace rannc::runtime
