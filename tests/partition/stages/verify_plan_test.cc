// Stage plans broken on purpose: each rule names what it found.
#include <gtest/gtest.h>

#include <functional>

#include "partition/stages/planner.h"

namespace rannc::partition {
namespace {

StageProblem problem() {
  StageProblem problem;
  problem.blocks = 4;
  problem.times.push_back({{1}, {{1, 1, 1, 1}}, {{2, 2, 2, 2}}, {}});
  problem.parameter_bytes = {10, 10, 10, 10};
  problem.stashed_bytes_per_sample = {5, 5, 5, 5};
  problem.cluster = *preset_cluster("flat:3");
  problem.mini_batch = 4;
  problem.constraints.stages = 2;
  problem.constraints.max_stages = 2;
  problem.constraints.forbidden_cuts = {1};
  problem.constraints.replicas = {1, 2};
  problem.constraints.pins = {{3, 1}};
  return problem;
}

/// Blocks 0 and 1 on device 0, blocks 2 and 3 on devices 1 and 2.
StagePlan sound() {
  StagePlan plan;
  plan.stages.resize(2);
  plan.stages[0].first = 0, plan.stages[0].end = 2, plan.stages[0].devices = {DeviceId(0)};
  plan.stages[1].first = 2, plan.stages[1].end = 4, plan.stages[1].devices = {DeviceId(1), DeviceId(2)};
  plan.micro_batches = 2;
  return plan;
}

void expect_broken(const char* rule, const char* named, const std::function<void(StageProblem&, StagePlan&)>& apply) {
  StageProblem given = problem();
  StagePlan plan = sound();
  ASSERT_TRUE(verify_plan(given, plan).ok()) << verify_plan(given, plan).diagnostic().str();
  apply(given, plan);
  const auto found = verify_plan(given, plan);
  ASSERT_FALSE(found.ok()) << named;
  EXPECT_EQ(found.diagnostic().rule, rule) << found.diagnostic().str();
  EXPECT_NE(found.diagnostic().message.find(named), std::string::npos) << found.diagnostic().str();
}

TEST(VerifyStagePlan, V1_StagesCoverAllBlocksInOrder) {
  expect_broken("V1", "it must start at 2", [](auto&, StagePlan& plan) { plan.stages[1].first = 3; });
  expect_broken("V1", "blocks from 3 on are in no stage", [](auto&, StagePlan& plan) { plan.stages[1].end = 3; });
}

TEST(VerifyStagePlan, V2_StagesShareAllOfTheirDevicesOrNone) {
  expect_broken("V2", "has no device", [](auto&, StagePlan& plan) { plan.stages[0].devices.clear(); });
  expect_broken("V2", "device 7 of a cluster of 3",
                [](auto&, StagePlan& plan) { plan.stages[0].devices = {DeviceId(7)}; });
  expect_broken("V2", "device 1 is assigned twice: stages [0, 2) and [2, 4) share it, but not all",
                [](auto&, StagePlan& plan) { plan.stages[0].devices = {DeviceId(1)}; });
  expect_broken("V2", "device 2 is assigned twice", [](auto&, StagePlan& plan) {
    plan.stages[1].devices = {DeviceId(2), DeviceId(2)};
  });
}

TEST(VerifyStagePlan, V4_StagesPerDeviceAreAsRequested) {
  StageProblem given = problem();
  given.constraints.replicas = {1, 1};
  StagePlan plan = sound();
  plan.stages[1].devices = plan.stages[0].devices;
  EXPECT_TRUE(verify_plan(given, plan).ok()) << "stages may share all of their devices";
  given.constraints.stages_per_device = 2;
  EXPECT_TRUE(verify_plan(given, plan).ok());
  given.constraints.stages_per_device = 1;
  EXPECT_EQ(verify_plan(given, plan).diagnostic().rule, "V4");
}

TEST(VerifyStagePlan, V3_EveryReplicaHasSamples) {
  expect_broken("V3", "0 micro-batches", [](auto&, StagePlan& plan) { plan.micro_batches = 0; });
  expect_broken("V3", "5 micro-batches of 4 samples", [](auto&, StagePlan& plan) { plan.micro_batches = 5; });
  expect_broken("V3", "2 replicas share a micro-batch of 1", [](auto&, StagePlan& plan) { plan.micro_batches = 4; });
}

TEST(VerifyStagePlan, V4_ConstraintsHold) {
  expect_broken("V4", "3 stages were", [](StageProblem& given, auto&) { given.constraints.stages = 3; });
  expect_broken("V4", "at most 1 stages", [](StageProblem& given, auto&) {
    given.constraints.stages.reset();
    given.constraints.max_stages = 1;
  });
  expect_broken("V4", "cut 2 is forbidden", [](StageProblem& given, auto&) { given.constraints.forbidden_cuts = {2}; });
  expect_broken("V4", "stage 1 has 2 replicas", [](StageProblem& given, auto&) {
    given.constraints.replicas = {1, 1};
  });
  expect_broken("V4", "block 1 is pinned to stage 1", [](StageProblem& given, auto&) {
    given.constraints.pins = {{1, 1}};
  });
}

TEST(VerifyStagePlan, V5_StagesFitTheirDevices) {
  expect_broken("V5", "stage 1 holds", [](auto&, StagePlan& plan) { plan.stages[1].peak_bytes = 1e15; });
}

}  // namespace
}  // namespace rannc::partition
