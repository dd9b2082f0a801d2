// NCCL's buffers on the devices of a plan, and what a run says about them.
#include "ir/plan/nccl_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/plan/device_pairs.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tools/run/held_memory.h"

namespace rannc::tools {
namespace {

using ir::DevicePairs;
using ir::nccl_buffer_bytes;
using ::testing::HasSubstr;
using testing::PlanSpec;

constexpr uint64_t kMiB = uint64_t{1} << 20;

ir::Plan plan_of(const PlanSpec& spec) { return testing::build_plan(testing::skip_and_tie(ir::DType::kF64), spec); }

DevicePairs pairs(const std::vector<std::pair<uint32_t, uint32_t>>& given) {
  DevicePairs made;
  for (const auto& [from, to] : given) made.emplace_back(from, to);
  return made;
}

// A tied parameter: one of its two stages is replicated, so that three devices sum its gradient.
TEST(NcclMemory, PairsAreThoseOfThePlan) {
  const ir::Plan plan = plan_of({.cuts = {4}, .replicas = {2, 1}, .micro_batches = {4, 4}});
  EXPECT_EQ(ir::message_pairs(plan), pairs({{0, 2}, {1, 2}, {2, 0}, {2, 1}}));
  EXPECT_EQ(ir::sum_pairs(plan), pairs({{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}}));
  EXPECT_EQ(ir::pass_sum_pairs(plan), DevicePairs());
  EXPECT_EQ(ir::sum_pairs(plan_of({.micro_batches = {8}})), DevicePairs());
}

TEST(NcclMemory, ReplicasThatNormalizeTogetherSumWithinPasses) {
  const ir::Plan plan = testing::build_plan(testing::joint_norm_model(ir::DType::kF64),
                                            {.cuts = {2}, .replicas = {2, 1}, .micro_batches = {4, 4}});
  EXPECT_EQ(ir::pass_sum_pairs(plan), pairs({{0, 1}, {1, 0}}));
}

// 4 channels of 12 MiB for each neighbor and direction, both ends together.
TEST(NcclMemory, CountsEachConnection) {
  const ir::Plan chain = plan_of({.cuts = {4}, .micro_batches = {4, 4}});
  ASSERT_EQ(ir::message_pairs(chain), pairs({{0, 1}, {1, 0}}));
  ASSERT_EQ(ir::sum_pairs(chain), pairs({{0, 1}, {1, 0}})) << "of the tied parameter";
  EXPECT_EQ(nccl_buffer_bytes(chain)[1], 4 * 2 * 12 * kMiB);
  EXPECT_EQ(nccl_buffer_bytes(plan_of({.micro_batches = {8}})), std::vector<uint64_t>{0});
  const ir::Plan replicas = plan_of({.replicas = {3}, .micro_batches = {6}});
  EXPECT_EQ(nccl_buffer_bytes(replicas)[2], 4 * 2 * 12 * kMiB);
}

TEST(NcclMemory, ARunWarnsOfBuffersThatDoNotFit) {
  ir::Plan plan = plan_of({.cuts = {4}, .micro_batches = {4, 4}});
  plan.predictions[1].peak_bytes = 100 * kMiB;
  const uint64_t needed = 100 * kMiB + nccl_buffer_bytes(plan)[1];
  EXPECT_EQ(nccl_memory_warning(plan, DeviceId(1), needed), "");
  EXPECT_EQ(nccl_memory_warning(plan, DeviceId(1), 0), "");
  EXPECT_THAT(nccl_memory_warning(plan, DeviceId(1), needed - 1), HasSubstr("device 1 may run out of memory"));
}

// A plan for GPUs counts what LibTorch does not report as allocated.
TEST(NcclMemory, PlansForGpusCountIt) {
  ir::Plan plan = plan_of({.cuts = {4}, .micro_batches = {4, 4}});
  EXPECT_EQ(ir::bytes_beside_tensors(plan)[1], 0U);
  for (ir::PlanDevice& device : plan.devices) device.type = ir::DeviceType::kCuda;
  const uint64_t beside = nccl_buffer_bytes(plan)[1] + 44 * kMiB;
  EXPECT_EQ(ir::bytes_beside_tensors(plan)[1], beside);
  plan.predictions[1].peak_bytes = 100 * kMiB + beside;
  EXPECT_EQ(predicted_bytes(plan, {.first_device = 1}), 100 * kMiB);
  const uint64_t needed = 100 * kMiB + nccl_buffer_bytes(plan)[1];
  EXPECT_EQ(nccl_memory_warning(plan, DeviceId(1), needed), "") << "buffers count once";
  EXPECT_THAT(nccl_memory_warning(plan, DeviceId(1), needed - 1), HasSubstr("device 1 may run out of memory"));
  EXPECT_THAT(nccl_memory_text(plan), HasSubstr("but of the plan's"));
}

}  // namespace
}  // namespace rannc::tools
