/// Live bytes along rows.
#include "ir/schedule/schedule_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/schedule/lower_schedule.h"

namespace rannc::ir {
namespace {

using testing::ElementsAre;

RowMemory follow(const PipelineShape& shape, uint32_t device, const Schedule& schedule) {
  return row_memory(Dependencies(shape), schedule, DeviceId(device));
}

Schedule rows(const PipelineShape& shape, const std::string& text) { return parse_schedule(text, shape).value(); }

TEST(ScheduleMemory, SavedFromForwardToBackward) {
  PipelineShape shape = chain_shape(1, 2);
  shape.stages[0] = {shape.stages[0].devices, false, 100, 10, 3, 0, 2};
  const RowMemory memory = follow(shape, 0, rows(shape, "0: F0 F1 B0 B1"));
  EXPECT_THAT(memory.during, ElementsAre(112, 122, 122, 112));
  EXPECT_EQ(memory.peak, 122);
  EXPECT_EQ(memory.peak_at, 1u);
}

TEST(ScheduleMemory, SplitBackwardHoldsUntilTheWeightGradient) {
  PipelineShape shape = chain_shape(1, 2);
  shape.stages[0].saved_bytes = 10;
  shape.stages[0].pending_bytes = -4;  // the input gradient frees more than the weight gradient still needs
  EXPECT_THAT(follow(shape, 0, rows(shape, "0: F0 I0 F1 I1 W0 W1")).during, ElementsAre(10, 10, 16, 16, 12, 6));
  shape.stages[0].pending_bytes = 4;
  EXPECT_THAT(follow(shape, 0, rows(shape, "0: F0 I0 F1 I1 W0 W1")).during, ElementsAre(10, 14, 24, 28, 28, 14));
}

TEST(ScheduleMemory, RecomputeKeepsInputsOnly) {
  PipelineShape shape = chain_shape(1, 3);
  shape.stages[0] = {shape.stages[0].devices, true, 0, 10, 3, 0, 0};
  const Schedule schedule = add_recompute(shape, rows(shape, "0: F0 F1 F2 B2 B1 B0"));
  EXPECT_EQ(print_compute_rows(schedule), "0: F0 F1 F2 B2 R1 B1 R0 B0\n");
  EXPECT_THAT(follow(shape, 0, schedule).during, ElementsAre(3, 6, 16, 16, 13, 13, 10, 10));
}

TEST(ScheduleMemory, GradientsStayFromTheFirstBackwardPassOn) {
  PipelineShape shape = chain_shape(1, 2);
  shape.stages[0].fixed_bytes = 100;
  shape.stages[0].saved_bytes = 10;
  shape.stages[0].gradient_bytes = 50;
  // After B0 the gradient is there and its stash gone: 100 + 50, then F1's 10 more.
  EXPECT_THAT(follow(shape, 0, rows(shape, "0: F0 B0 F1 B1")).during, ElementsAre(110, 150, 160, 160));
  EXPECT_THAT(follow(shape, 0, rows(shape, "0: F0 I0 F1 I1 W0 W1")).during, ElementsAre(110, 110, 120, 120, 160, 160));
}

// Sums of parameters' gradients do not grow with samples: a share takes what is said of the next larger one.
TEST(ScheduleMemory, AStepsFirstBackwardPassMakesTheSums) {
  PipelineShape shape = chain_shape(1, 3);
  shape.micro_batches = {3, 3, 2};
  shape.stages[0].fixed_bytes = 100;
  shape.stages[0].saved_bytes = 10;
  shape.stages[0].gradient_bytes = 50;
  shape.stages[0].peaks.usual[ProgramKind::kBackward] = {{3, 21}, {2, 14}, {1, 7}};
  shape.stages[0].peaks.first[ProgramKind::kBackward] = {{3, 60}, {2, 55}};
  // 130 and 60 while the sums come, then 150 of weights and sums; the next has 30 of stash and 21 more.
  EXPECT_THAT(follow(shape, 0, rows(shape, "0: F0 B0 F1 B1 F2 B2")).during, ElementsAre(130, 190, 180, 201, 170, 184));
  EXPECT_THAT(follow(shape, 0, rows(shape, "0: F2 B2 F1 B1 F0 B0")).during, ElementsAre(120, 175, 180, 201, 180, 201));
  shape.micro_batches = {1, 1, 1};
  EXPECT_THAT(follow(shape, 0, rows(shape, "0: F0 B0 F1 B1 F2 B2")).during, ElementsAre(110, 165, 160, 167, 160, 167));
}

// Of a micro-batch of one sample, the first of two replicas has none.
TEST(ScheduleMemory, PassesWithoutSamplesNeedNothing) {
  PipelineShape shape = chain_shape(1, 2);
  shape.micro_batches = {1, 1};
  shape.devices = 2;
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[0].gradient_bytes = 50;
  shape.stages[0].peaks.usual[ProgramKind::kForward] = {{1, 12}};
  shape.stages[0].peaks.usual[ProgramKind::kBackward] = {{1, 20}};
  shape.stages[0].peaks.first[ProgramKind::kBackward] = {{1, 60}};
  const Schedule both = rows(shape, "0: F0 B0 F1 B1\n1: F0 B0 F1 B1");
  EXPECT_THAT(follow(shape, 0, both).during, ElementsAre(0, 60, 50, 50));
  EXPECT_THAT(follow(shape, 1, both).during, ElementsAre(12, 61, 62, 71));
}

// 2 samples each: a pass needs what its stage says beyond what was there, not what it leaves.
TEST(ScheduleMemory, PassesNeedWhatTheirStageSays) {
  PipelineShape shape = chain_shape(1, 2);
  shape.micro_batches = {2, 2};
  shape.stages[0] = {shape.stages[0].devices, true, 100, 10, 3, 0, 0};
  ByProgram<SizedBytes>& peaks = shape.stages[0].peaks.usual;
  peaks[ProgramKind::kEvaluate] = {{2, 10}};
  peaks[ProgramKind::kForward] = {{2, 24}};
  peaks[ProgramKind::kBackward] = {{2, 14}};
  shape.stages[0].step_bytes = 40;
  const Schedule schedule = add_recompute(shape, rows(shape, "0: F0 F1 B1 B0"));
  ASSERT_EQ(print_compute_rows(schedule), "0: F0 F1 B1 R0 B0\n");
  // F0 keeps 3 a sample and F1 10: 100 + 6, then 126 with F1's stash, 106 behind B1, 120 behind R0.
  EXPECT_THAT(follow(shape, 0, schedule).during, ElementsAre(110, 130, 140, 130, 134));
  EXPECT_EQ(follow(shape, 0, lower_schedule(shape, schedule).value()).during.back(), 140) << "the optimizer's step";
}

TEST(ScheduleMemory, MessagesLiveUntilTheyAreTakenAndFromReceiveToComputation) {
  PipelineShape shape = chain_shape(3, 1);
  for (auto& stage : shape.stages) stage.saved_bytes = 0;
  for (auto& route : shape.routes) route.bytes_per_sample = 5;
  const Schedule schedule = lower_schedule(shape, rows(shape, "0: F0 B0\n1: F0 B0\n2: F0 B0\n")).value();
  ASSERT_EQ(print_schedule(schedule).substr(23, 200),
            "d0: F0.0 SA0.0>d1 RG0.0<d1 B0.0 S0\n"
            "d1: RA0.0<d0 F1.0 SA1.0>d2 RG1.0<d2 B1.0 SG0.0>d0 S1\n"
            "d2: RA1.0<d1 F2.0 B2.0 SG1.0>d1 S2\n");
  // The activation is certainly taken when its gradient comes. Nothing proves that the gradient is taken.
  EXPECT_THAT(follow(shape, 1, schedule).during, ElementsAre(5, 10, 5, 10, 10, 5, 5));
  // Where the 20 that the middle keeps include what it received and what it sends, neither counts again: 5 received;
  // 25 while they turn into 20; the gradient in, then out.
  shape.stages[1].saved_bytes = 20;
  shape.routes[1].saved = true;
  EXPECT_THAT(follow(shape, 1, schedule).during, ElementsAre(5, 25, 20, 25, 30, 5, 5));
}

// A value between stages of one device waits for its reader, and what both keep is there once.
TEST(ScheduleMemory, ValuesBetweenStagesOfOneDeviceAreHeldOnce) {
  PipelineShape shape = chain_shape(2, 1);
  shape.devices = 1;
  shape.routes[0].bytes_per_sample = 5;
  for (StageShape& stage : shape.stages) {
    stage.devices = {DeviceId(0)};
    stage.saved_bytes = 0;
  }
  const Schedule schedule = lower_schedule(shape, rows(shape, "0: F0.0 F1.0 B1.0 B0.0")).value();
  EXPECT_THAT(follow(shape, 0, schedule).during, ElementsAre(5, 5, 5, 5, 0, 0));
  for (StageShape& stage : shape.stages) stage.saved_bytes = 5;
  shape.routes[0].saved = shape.routes[0].consumer_saves = true;
  EXPECT_THAT(follow(shape, 0, schedule).during, ElementsAre(5, 5, 10, 10, 0, 0));
}

// Stage 0 runs one forward pass more before it offers a buffer for a gradient than 1F1B does: stage 1 holds two.
TEST(ScheduleMemory, GradientsWaitForAPeerThatComputesOn) {
  PipelineShape shape = chain_shape(2, 5);
  for (auto& stage : shape.stages) stage.saved_bytes = 0;
  shape.routes[0].bytes_per_sample = 5;
  const auto peak_of_last = [&](const std::string& first) {
    const std::string table = first + "\n1: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4";
    return follow(shape, 1, lower_schedule(shape, rows(shape, table)).value()).peak;
  };
  EXPECT_EQ(peak_of_last("0: F0 F1 B0 F2 B1 F3 B2 F4 B3 B4"), 10) << "a gradient, an activation";
  EXPECT_EQ(peak_of_last("0: F0 F1 F2 B0 F3 B1 F4 B2 B3 B4"), 20) << "two gradients, two activations";
}

TEST(ScheduleMemory, ReplicasHoldTheirShare) {
  PipelineShape shape = chain_shape(1, 1);
  shape.devices = 2;
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[0].saved_bytes = 10;
  shape.micro_batches = {5};
  const Schedule schedule = rows(shape, "0: F0 B0\n1: F0 B0");
  EXPECT_EQ(follow(shape, 0, schedule).peak, 20);
  EXPECT_EQ(follow(shape, 1, schedule).peak, 30);
}

// An R or I without tasks needs nothing. Peaks that are not known are those of F and B.
TEST(ScheduleMemory, FunctionsWithoutTasksNeedNothing) {
  PipelineShape shape = chain_shape(1, 1);
  StageShape& stage = shape.stages[0];
  stage.recompute = true;
  stage.saved_bytes = stage.kept_bytes = 5;
  stage.peaks.usual[ProgramKind::kEvaluate] = stage.peaks.usual[ProgramKind::kForward] = {{1, 20}};
  stage.peaks.usual[ProgramKind::kBackward] = {{1, 30}};
  const Schedule schedule = rows(shape, "0: F0 R0 I0 W0");
  EXPECT_THAT(follow(shape, 0, schedule).during, ElementsAre(20, 25, 35, 5));
  for (const ProgramKind kind : {ProgramKind::kRebuild, ProgramKind::kInput, ProgramKind::kWeight}) {
    stage.peaks.usual[kind] = {{1, 0}};
  }
  EXPECT_THAT(follow(shape, 0, schedule).during, ElementsAre(20, 5, 5, 5));
}

// The gradient that an I without tasks passes on to W is held once.
TEST(ScheduleMemory, AMessageThatIsPassedOnCountsOnce) {
  PipelineShape shape = chain_shape(2, 1);
  shape.routes[0].bytes_per_sample = 8;
  shape.routes[0].gradient = shape.routes[0].saved = true;
  shape.stages[0].saved_bytes = 5;
  shape.stages[0].pending_bytes = 8;
  for (const ProgramKind kind : {ProgramKind::kForward, ProgramKind::kInput, ProgramKind::kWeight}) {
    shape.stages[0].peaks.usual[kind] = {{1, 0}};
  }
  const Schedule schedule = rows(shape, "0: F0.0 I0.0 W0.0\n1: F1.0 I1.0 W1.0");
  EXPECT_THAT(follow(shape, 0, lower_schedule(shape, schedule).value()).during, ElementsAre(5, 5, 13, 13, 13, 0));
}

// The sum and this device's half of it, beside the gradients; stages of one device are added first.
TEST(ScheduleMemory, SumsOfSharedParametersAreBesideTheGradients) {
  PipelineShape shape = chain_shape(2, 1);
  shape.routes.clear();
  for (StageShape& stage : shape.stages) stage.saved_bytes = 0, stage.gradient_bytes = 50;
  shape.shared.push_back({{StageId(0), StageId(1)}, 40});
  const std::string apart = "0: F0.0 B0.0 RS0\n1: F1.0 B1.0 RS0";
  EXPECT_THAT(follow(shape, 1, rows(shape, apart)).during, ElementsAre(0, 50, 70));
  shape.devices = 1;
  shape.stages[1].devices = {DeviceId(0)};
  EXPECT_THAT(follow(shape, 0, rows(shape, "0: F0.0 F1.0 B1.0 B0.0 RS0")).during, ElementsAre(0, 0, 50, 100, 140));
}

TEST(ScheduleMemory, EmptyRowsHoldTheirStages) {
  PipelineShape shape = chain_shape(1, 1);
  shape.stages[0].fixed_bytes = 7;
  shape.training = false;
  EXPECT_EQ(follow(shape, 0, rows(shape, "")).peak, 7);
  EXPECT_EQ(follow(shape, 0, rows(shape, "0: F0")).peak, 7) << "inference keeps nothing for a backward pass";
}

}  // namespace
}  // namespace rannc::ir
