/// Durations, links, contention, collectives and memory of simulated schedules.
#include "partition/schedule/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "ir/schedule/lower_schedule.h"
#include "partition/schedule/make_schedule.h"

namespace rannc::partition {
namespace {

using ir::ActionKind;
using ir::PipelineShape;

ir::Schedule parsed(const PipelineShape& shape, const std::string& rows) {
  return ir::parse_schedule(rows, shape).value();
}
ir::Schedule lowered(const PipelineShape& shape, const std::string& rows) {
  return ir::lower_schedule(shape, parsed(shape, rows)).value();
}

const Span& span_of(const ir::Schedule& schedule, const Timeline& timeline, size_t device, const std::string& action) {
  for (size_t i = 0; i < schedule.rows[device].size(); ++i) {
    if (ir::to_string(schedule.rows[device][i]) == action) return timeline.spans[device][i];
  }
  ADD_FAILURE() << action << " is not on device " << device;
  static const Span kNone;
  return kNone;
}

void expect_span(const Span& span, double start, double end) {
  EXPECT_DOUBLE_EQ(span.start, start);
  EXPECT_DOUBLE_EQ(span.end, end);
}

TEST(Simulate, TransfersTakeLatencyAndBytesAndOverlap) {
  PipelineShape shape = ir::chain_shape(2, 2);
  shape.routes[0].bytes_per_sample = 10;
  ScheduleCosts costs = uniform_costs(shape, {1, 1, 1, 0});
  costs.link = [](DeviceId, DeviceId) { return LinkCost{0.5, 0.1}; };
  const auto schedule = lowered(shape, "0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n");
  const Timeline t = simulate(shape, schedule, costs).value();
  expect_span(span_of(schedule, t, 0, "F0.0"), 0, 1);
  expect_span(span_of(schedule, t, 0, "SA0.0>d1"), 1, 2.5);
  expect_span(span_of(schedule, t, 0, "F0.1"), 1, 2);
  expect_span(span_of(schedule, t, 1, "RA0.0<d0"), 0, 2.5);
  expect_span(span_of(schedule, t, 1, "F1.0"), 2.5, 3.5);
  expect_span(span_of(schedule, t, 1, "B1.0"), 3.5, 5.5);
  expect_span(span_of(schedule, t, 0, "B0.0"), 7, 9);
  expect_span(span_of(schedule, t, 1, "F1.1"), 5.5, 6.5);
  expect_span(span_of(schedule, t, 1, "B1.1"), 6.5, 8.5);
  expect_span(span_of(schedule, t, 0, "B0.1"), 10, 12);
  EXPECT_DOUBLE_EQ(t.makespan, 12);
  EXPECT_DOUBLE_EQ(t.devices[0].busy, 6);
  EXPECT_DOUBLE_EQ(t.bubble, 0.5);
  // Without overlap the sender is held until its message has arrived.
  const Timeline blocked = simulate(shape, schedule, costs, {.overlap = false}).value();
  expect_span(span_of(schedule, blocked, 0, "F0.1"), 2.5, 3.5);
  EXPECT_GT(blocked.makespan, t.makespan);
}

TEST(Simulate, MessagesOfOnePortQueueUnderContention) {
  // Stage 0 sends to stages 1 and 2 at once.
  PipelineShape shape = ir::chain_shape(3, 1);
  shape.routes = {{StageId(0), StageId(1), 4}, {StageId(0), StageId(2), 4}};
  shape.training = false;
  ScheduleCosts costs = uniform_costs(shape, {1, 0, 0, 0});
  costs.link = [](DeviceId, DeviceId) { return LinkCost{0, 1}; };
  const auto schedule = lowered(shape, "0: F0\n1: F0\n2: F0\n");
  const Timeline free = simulate(shape, schedule, costs).value();
  expect_span(span_of(schedule, free, 1, "F1.0"), 5, 6);
  expect_span(span_of(schedule, free, 2, "F2.0"), 5, 6);
  const Timeline queued = simulate(shape, schedule, costs, {.contention = true}).value();
  expect_span(span_of(schedule, queued, 1, "F1.0"), 5, 6);
  expect_span(span_of(schedule, queued, 2, "F2.0"), 9, 10);
  // A shared bus named by the caller makes two disjoint pairs of devices wait for each other.
  PipelineShape pairs = ir::chain_shape(4, 1);
  pairs.routes = {{StageId(0), StageId(1), 4}, {StageId(2), StageId(3), 4}};
  pairs.training = false;
  const auto two = lowered(pairs, "0: F0\n1: F0\n2: F0\n3: F0\n");
  costs = uniform_costs(pairs, {1, 0, 0, 0});
  costs.link = [](DeviceId, DeviceId) { return LinkCost{0, 1}; };
  EXPECT_DOUBLE_EQ(simulate(pairs, two, costs, {.contention = true}).value().makespan, 6);
  costs.resources = [](DeviceId, DeviceId) { return std::vector<Hold>{{0}}; };
  EXPECT_DOUBLE_EQ(simulate(pairs, two, costs, {.contention = true}).value().makespan, 10);
}

TEST(Simulate, MicroBatchesOfOtherSizesTakeOtherTimes) {
  PipelineShape shape = ir::chain_shape(1, 3);
  shape.micro_batches = {4, 4, 2};
  ScheduleCosts costs;
  costs.compute = {{{4, 2, 2, 0}, {3, 1, 1, 0}}};
  costs.size_class = {0, 0, 1};
  EXPECT_DOUBLE_EQ(simulate(shape, parsed(shape, "0: F0 B0 F1 B1 F2 B2"), costs).value().makespan, 8 + 8 + 5);
}

TEST(Simulate, RecomputeRunsWhileTheGradientTravels) {
  PipelineShape shape = ir::chain_shape(2, 1);
  shape.stages[0].recompute = true;
  const ScheduleCosts costs = uniform_costs(shape, {1, 1, 0, 1}, 2);
  const auto schedule = lowered(shape, "0: F0 R0 B0\n1: F0 B0\n");
  const Timeline t = simulate(shape, schedule, costs).value();
  expect_span(span_of(schedule, t, 0, "R0.0"), 1, 2);
  expect_span(span_of(schedule, t, 0, "B0.0"), 7, 8);
}

/// Two replicas of stage 0 and one of stage 1, which share a parameter.
PipelineShape shared_by_three_devices() {
  PipelineShape shape = ir::chain_shape(2, 2);
  shape.devices = 3;
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[1].devices = {DeviceId(2)};
  shape.micro_batches = {2, 2};
  shape.shared.push_back({{StageId(0), StageId(1)}, 1});
  return shape;
}

ScheduleCosts costs_of_reductions(const PipelineShape& shape) {
  ScheduleCosts costs = uniform_costs(shape, {1, 1, 0, 0});
  costs.all_reduce = {{{3, 0}}, {}};
  costs.shared = {2};
  costs.step = {0.5, 0.25};
  return costs;
}

constexpr const char* kRowsOfThreeDevices = "0: F0 F1 B0 B1\n1: F0 F1 B0 B1\n2: F0 B0 F1 B1\n";

TEST(Simulate, ReductionsWaitForAllMembersAndOverlap) {
  const PipelineShape shape = shared_by_three_devices();
  const ScheduleCosts costs = costs_of_reductions(shape);
  const auto schedule = lowered(shape, kRowsOfThreeDevices);
  const Timeline t = simulate(shape, schedule, costs).value();
  expect_span(span_of(schedule, t, 2, "B1.1"), 4, 5);
  expect_span(span_of(schedule, t, 0, "B0.1"), 5, 6);
  expect_span(span_of(schedule, t, 0, "AR0"), 6, 9);
  expect_span(span_of(schedule, t, 2, "RS0"), 6, 8);
  expect_span(span_of(schedule, t, 0, "S0"), 9, 9.5);
  expect_span(span_of(schedule, t, 2, "S1"), 8, 8.25);
  const Timeline barrier = simulate(shape, schedule, costs, {.step_barrier = true}).value();
  expect_span(span_of(schedule, barrier, 2, "S1"), 9, 9.25);
  EXPECT_DOUBLE_EQ(barrier.makespan, 9.5);
}

/// `count` stages on two devices each, of one micro-batch with a sample for each replica.
PipelineShape pairs_of_devices(uint32_t count, bool apart) {
  PipelineShape shape = ir::chain_shape(count, 1);
  shape.devices = apart ? 2 * count : 2;
  for (uint32_t s = 0; s < count; ++s) {
    const uint32_t first = apart ? 2 * s : 0;
    shape.stages[s].devices = {DeviceId(first), DeviceId(first + 1)};
  }
  shape.micro_batches = {2};
  return shape;
}

// A backward pass of 4, of whose gradients the first bucket is final 3 before its end.
TEST(Simulate, SumsBeginAtTheirMarksOneAfterTheOther) {
  PipelineShape shape = pairs_of_devices(1, true);
  shape.stages[0].sums = 3;
  ScheduleCosts costs = uniform_costs(shape, {1, 4, 0, 0});
  costs.all_reduce = {{{2.5, 3}, {1, 2}, {1, 0}}};
  costs.step = {1};
  const auto schedule = lowered(shape, "0: F0 B0\n1: F0 B0\n");
  for (const bool contention : {false, true}) {
    const Timeline t = simulate(shape, schedule, costs, {.contention = contention}).value();
    expect_span(span_of(schedule, t, 0, "AR0"), 2, 4.5);
    expect_span(span_of(schedule, t, 1, "AR0.1"), 4.5, 5.5);
    expect_span(span_of(schedule, t, 1, "AR0.2"), 5.5, 6.5);
    expect_span(span_of(schedule, t, 1, "S0"), 6.5, 7.5);
  }
  // With E before it, the last sum waits; the others do not.
  costs.gradients = {5};
  const Timeline t = simulate(shape, schedule, costs, {.contention = true}).value();
  expect_span(span_of(schedule, t, 0, "AR0.1"), 4.5, 5.5);
  expect_span(span_of(schedule, t, 0, "AR0.2"), 10, 11);
  // Under rendezvous a device joins a sum when its row reaches it.
  costs.gradients.clear();
  const Timeline blocked = simulate(shape, schedule, costs, {.blocking = true}).value();
  expect_span(span_of(schedule, blocked, 0, "AR0"), 5, 7.5);
}

/// Processor seconds to simulate a step of four replicas that sum their gradients in `sums` buckets.
double seconds_with(uint32_t sums) {
  PipelineShape shape = ir::chain_shape(1, 1);
  shape.devices = 4;
  shape.stages[0].devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  shape.stages[0].sums = sums;
  ScheduleCosts costs = uniform_costs(shape, {1, 1, 1, 0});
  costs.all_reduce = {std::vector<SumCost>(sums, SumCost{1, 0})};
  const auto schedule = lowered(shape, "0: F0 B0\n1: F0 B0\n2: F0 B0\n3: F0 B0\n");
  const std::clock_t start = std::clock();
  EXPECT_DOUBLE_EQ(simulate(shape, schedule, costs, {.contention = true})->makespan, 3 + sums);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Eight times the sums took 64 times as long while each sum's end made the step look for all of them again.
TEST(Simulate, TimeGrowsWithTheNumberOfSums) {
  double few = std::numeric_limits<double>::infinity(), many = few;
  for (int round = 0; round < 5; ++round) {
    few = std::min(few, seconds_with(2000));
    many = std::min(many, seconds_with(16'000));
  }
  EXPECT_LT(many, 25 * few);
}

TEST(Simulate, MarksLieWithinTheLastGradient) {
  PipelineShape shape = pairs_of_devices(1, true);
  shape.micro_batches = {2, 1};  // the second has no sample for the first replica
  ScheduleCosts costs = uniform_costs(shape, {1, 4, 0, 0});
  costs.all_reduce = {{{2, 100}}};
  const auto schedule = lowered(shape, "0: F0 B0 F1 B1\n1: F0 B0 F1 B1\n");
  const Timeline t = simulate(shape, schedule, costs).value();
  expect_span(span_of(schedule, t, 0, "B0.1"), 5, 5);
  expect_span(span_of(schedule, t, 1, "B0.1"), 6, 10);
  expect_span(span_of(schedule, t, 0, "AR0"), 6, 8);  // the other replica has begun its last backward pass
  EXPECT_DOUBLE_EQ(t.makespan, 10);
  // A W in the place of B.
  ScheduleCosts parted = uniform_costs(shape, {1, 4, 2, 0});
  parted.all_reduce = {{{2, 100}}};
  shape.micro_batches = {2, 2};
  const auto split = lowered(shape, "0: F0 F1 I0 I1 W0 W1\n1: F0 F1 I0 I1 W0 W1\n");
  expect_span(span_of(split, simulate(shape, split, parted).value(), 0, "AR0"), 12, 14);
}

TEST(Simulate, CollectivesAndMessagesShareThePorts) {
  // The sum of stage 1 is half a unit ahead of its gradient, which then waits for the ports of its devices.
  PipelineShape shape = pairs_of_devices(2, true);
  shape.routes[0].bytes_per_sample = 3;
  ScheduleCosts costs = uniform_costs(shape, {1, 1, 0, 0});
  costs.link = [](DeviceId, DeviceId) { return LinkCost{0, 1}; };
  costs.all_reduce = {{}, {{2, 0.5}}};
  const auto schedule = lowered(shape, "0: F0.0 B0.0\n1: F0.0 B0.0\n2: F1.0 B1.0\n3: F1.0 B1.0\n");
  const auto times = [&](bool contention) {
    return simulate(shape, schedule, costs, {.contention = contention}).value();
  };
  expect_span(span_of(schedule, times(false), 2, "SG0.0>d0"), 6, 9);
  expect_span(span_of(schedule, times(true), 2, "AR1"), 5.5, 7.5);
  expect_span(span_of(schedule, times(true), 2, "SG0.0>d0"), 6, 10.5);
  costs.all_reduce[1] = {{2, 0}};
  expect_span(span_of(schedule, times(true), 2, "SG0.0>d0"), 6, 9);
  expect_span(span_of(schedule, times(true), 2, "AR1"), 9, 11);  // the gradient was first
}

TEST(Simulate, SumsOfStagesOnTheSameDevicesFollowEachOther) {
  const PipelineShape shape = pairs_of_devices(2, false);
  ScheduleCosts costs = uniform_costs(shape, {1, 2, 0, 0});
  costs.all_reduce = {{{5, 1}}, {{5, 1}}};
  costs.step = {1, 1};
  const auto schedule = lowered(shape, "0: F0.0 F1.0 B1.0 B0.0\n1: F0.0 F1.0 B1.0 B0.0\n");
  const Timeline free = simulate(shape, schedule, costs).value();
  expect_span(span_of(schedule, free, 0, "AR1"), 3, 8);
  expect_span(span_of(schedule, free, 0, "AR0"), 5, 10);
  const Timeline t = simulate(shape, schedule, costs, {.contention = true}).value();
  expect_span(span_of(schedule, t, 0, "AR0"), 8, 13);
  expect_span(span_of(schedule, t, 0, "S1"), 14, 15);
  const Timeline barrier = simulate(shape, schedule, costs, {.contention = true, .step_barrier = true}).value();
  expect_span(span_of(schedule, barrier, 0, "S0"), 13, 14);
}

TEST(Simulate, WorkOncePerStepPrecedesForwardAndReductions) {
  const PipelineShape shape = shared_by_three_devices();
  ScheduleCosts costs = costs_of_reductions(shape);
  costs.begin = {0.5, 2};
  costs.gradients = {0.25, 0.75};
  const auto schedule = lowered(shape, kRowsOfThreeDevices);
  const Timeline t = simulate(shape, schedule, costs).value();
  expect_span(span_of(schedule, t, 0, "F0.0"), 0, 1.5);
  expect_span(span_of(schedule, t, 0, "F0.1"), 1.5, 2.5);
  expect_span(span_of(schedule, t, 2, "F1.0"), 1.5, 4.5);
  expect_span(span_of(schedule, t, 2, "B1.1"), 6.5, 7.5);
  expect_span(span_of(schedule, t, 0, "B0.1"), 7.5, 8.5);
  expect_span(span_of(schedule, t, 0, "AR0"), 8.75, 11.75);
  expect_span(span_of(schedule, t, 2, "RS0"), 8.75, 10.75);
  expect_span(span_of(schedule, t, 0, "S0"), 11.75, 12.25);
  expect_span(span_of(schedule, t, 2, "S1"), 10.75, 11);
  EXPECT_DOUBLE_EQ(t.devices[2].busy, 2 + 4 + 0.75 + 0.25);
}

TEST(Simulate, BarrierCostsZeroBubbleItsGain) {
  const PipelineShape shape = ir::chain_shape(4, 8);
  const auto end_of_first = [&](const char* name, bool barrier) {
    const auto schedule = ir::lower_schedule(shape, make_schedule(shape, {.name = name}).value()).value();
    return simulate(shape, schedule, uniform_costs(shape, {1, 1, 1, 0}), {.step_barrier = barrier}).value().makespan;
  };
  EXPECT_DOUBLE_EQ(end_of_first("zb-h1", true), 27);
  EXPECT_DOUBLE_EQ(end_of_first("zb-h2", true), 27);
}

TEST(Simulate, NamesTheRowsThatWaitForEver) {
  const PipelineShape shape = ir::chain_shape(2, 2);
  const auto result = simulate(shape, parsed(shape, "0: F0 B0 F1 B1\n1: F1 B1 F0 B0\n"), {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diagnostic().rule, "S6");
  EXPECT_THAT(result.diagnostic().str(), testing::HasSubstr("device 0 waits for ever before B0.0"));
  EXPECT_EQ(simulate(shape, ir::Schedule{}, {}).diagnostic().rule, "S3");
}

TEST(Simulate, BlockingTransfersHoldBothDevices) {
  PipelineShape shape = ir::chain_shape(2, 2);
  shape.training = false;
  const auto costs = uniform_costs(shape, {1, 0, 0, 0}, 3);
  const auto schedule = lowered(shape, "0: F0 F1\n1: F0 F1\n");
  EXPECT_DOUBLE_EQ(simulate(shape, schedule, costs).value().makespan, 6);
  const Timeline t = simulate(shape, schedule, costs, {.blocking = true}).value();
  expect_span(span_of(schedule, t, 0, "SA0.0>d1"), 1, 4);
  expect_span(span_of(schedule, t, 1, "RA0.0<d0"), 0, 4);
  expect_span(span_of(schedule, t, 0, "F0.1"), 4, 5);
  expect_span(span_of(schedule, t, 1, "F1.0"), 4, 5);
  EXPECT_DOUBLE_EQ(t.makespan, 9);
}

/// Each device sends before it receives: harmless with buffers, a deadlock where sends block.
TEST(Simulate, BlockingRunFindsTheCircleThatBuffersHide) {
  PipelineShape shape = ir::chain_shape(4, 1);
  shape.devices = 2;
  shape.training = false;
  for (uint32_t s = 0; s < 4; ++s) shape.stages[s].devices = {DeviceId(s == 1 || s == 2)};
  shape.routes = {{StageId(0), StageId(2)}, {StageId(1), StageId(3)}};
  const auto schedule = parsed(shape, "d0: F0.0 SA0.0>d1 RA1.0<d1 F3.0\nd1: F1.0 SA1.0>d0 RA0.0<d0 F2.0\n");
  EXPECT_TRUE(simulate(shape, schedule, {}).ok());
  const auto blocked = simulate(shape, schedule, {}, {.blocking = true});
  ASSERT_FALSE(blocked.ok());
  EXPECT_EQ(blocked.diagnostic().rule, "S6");
  EXPECT_THAT(blocked.diagnostic().str(), testing::HasSubstr("device 0 waits for ever before SA0.0>d1"));
  EXPECT_FALSE(simulate(shape, parsed(shape, "0: F0.0 F3.0\n1: F1.0 F2.0\n"), {}, {.blocking = true}).ok());
}

TEST(Simulate, BlockingRunFindsCollectivesInDifferentOrder) {
  PipelineShape shape = ir::chain_shape(2, 1);
  for (auto& stage : shape.stages) stage.devices = {DeviceId(0), DeviceId(1)};
  shape.micro_batches = {2};
  auto schedule = lowered(shape, "0: F0.0 F1.0 B1.0 B0.0\n1: F0.0 F1.0 B1.0 B0.0\n");
  EXPECT_TRUE(simulate(shape, schedule, {}, {.blocking = true}).ok());
  auto& row = schedule.rows[1];
  const auto place = [&](ActionKind kind, uint32_t stage) {
    return std::find(row.begin(), row.end(), ir::compute_action(kind, StageId(stage), 0));
  };
  std::iter_swap(place(ActionKind::kAllReduce, 0), place(ActionKind::kAllReduce, 1));
  const auto blocked = simulate(shape, schedule, {}, {.blocking = true});
  ASSERT_FALSE(blocked.ok());
  EXPECT_EQ(blocked.diagnostic().message, "device 0 waits for ever in AR1");
}

// F0.0 B0.0 take 3, a reduction 3, an update 1 or 2, a gather 4.
TEST(Simulate, ShardedStepsScatterUpdateAndGather) {
  PipelineShape shape = ir::chain_shape(1, 1);
  shape.devices = 2;
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[0].sharded = true;
  shape.micro_batches = {2};
  ScheduleCosts costs = uniform_costs(shape, {1, 1, 1, 0});
  costs.all_reduce = {{{3, 0}}};
  costs.step = {1};
  costs.gather = {4};
  const auto schedule = lowered(shape, "0: F0 B0\n1: F0 B0\n");
  for (const bool blocking : {false, true}) {
    const Timeline t = simulate(shape, schedule, costs, {.blocking = blocking}).value();
    expect_span(span_of(schedule, t, 1, "SC0"), 3, 6);
    expect_span(span_of(schedule, t, 1, "U0"), 6, 7);
    expect_span(span_of(schedule, t, 1, "AG0"), 7, 11);
    EXPECT_DOUBLE_EQ(t.makespan, 11);
    EXPECT_DOUBLE_EQ(t.devices[0].busy, 4);
  }
  const Timeline late = simulate(shape, schedule, costs, {.step_barrier = true}).value();
  EXPECT_DOUBLE_EQ(late.makespan, 11);
}

TEST(Simulate, PeakFollowsRecomputeAndBuffers) {
  PipelineShape shape = ir::chain_shape(2, 4);
  for (auto& stage : shape.stages) stage = {stage.devices, false, 100, 10, 2, 0, 1};
  const auto peak = [&] {
    const auto schedule = make_schedule(shape, {.name = "gpipe"}).value();
    return simulate(shape, schedule, {}).value().devices[0].peak_bytes;
  };
  EXPECT_EQ(peak(), 100 + 4 * 10 + 1);
  shape.stages[0].recompute = true;
  EXPECT_EQ(peak(), 100 + 3 * 2 + 10 + 1);  // the last micro-batch is kept whole: its B follows at once
}

TEST(Simulate, SamplesOfReplicasScaleBytes) {
  PipelineShape shape = ir::chain_shape(2, 1);
  shape.devices = 3;
  shape.stages[0].devices = {DeviceId(0)};
  shape.stages[1].devices = {DeviceId(1), DeviceId(2)};
  shape.micro_batches = {3};
  shape.routes[0].bytes_per_sample = 10;
  ScheduleCosts costs = uniform_costs(shape, {1, 1, 0, 0});
  costs.link = [](DeviceId, DeviceId) { return LinkCost{0, 0.1}; };
  const auto schedule = lowered(shape, "0: F0 B0\n1: F0 B0\n2: F0 B0\n");
  const Timeline t = simulate(shape, schedule, costs).value();
  expect_span(span_of(schedule, t, 1, "F1.0"), 2, 3);  // one sample of three
  expect_span(span_of(schedule, t, 2, "F1.0"), 3, 4);  // two
}

}  // namespace
}  // namespace rannc::partition
