/// Every rule of schedules broken on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"

namespace rannc::ir {
namespace {

using testing::HasSubstr;

/// A chain of two stages and two micro-batches, lowered from 1F1B.
struct Chain {
  PipelineShape shape = chain_shape(2, 2);
  Schedule schedule = lower_schedule(shape, parse_schedule("0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n", shape).value()).value();
};

/// Stage 0 on d0, stage 1 replicated on d1 and d2; the stages share a parameter.
struct Replicated {
  Replicated() {
    shape.devices = 3;
    shape.stages[1].devices = {DeviceId(1), DeviceId(2)};
    shape.micro_batches = {2, 3};
    shape.shared.push_back({{StageId(0), StageId(1)}, 8});
    schedule = lower_schedule(shape, parse_schedule("0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n2: F0 B0 F1 B1\n", shape).value())
                   .value();
  }
  PipelineShape shape = chain_shape(2, 2);
  Schedule schedule;
};

/// The same with sharded optimizer state of stage 1.
struct Sharded : Replicated {
  Sharded() {
    shape.stages[1].sharded = true;
    schedule = lower_schedule(shape, parse_schedule("0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n2: F0 B0 F1 B1\n", shape).value())
                   .value();
  }
};

/// Position of an action in a row, by its text.
size_t find(const Schedule& schedule, size_t device, const std::string& action) {
  const auto& row = schedule.rows[device];
  for (size_t i = 0; i < row.size(); ++i) {
    if (to_string(row[i]) == action) return i;
  }
  ADD_FAILURE() << action << " is not on device " << device << "\n" << print_schedule(schedule);
  return 0;
}

void erase(Schedule& schedule, size_t device, const std::string& action) {
  auto& row = schedule.rows[device];
  row.erase(row.begin() + static_cast<std::ptrdiff_t>(find(schedule, device, action)));
}

/// Moves an action to just before another one.
void move_before(Schedule& schedule, size_t device, const std::string& action, const std::string& other) {
  auto& row = schedule.rows[device];
  const Action moved = row[find(schedule, device, action)];
  erase(schedule, device, action);
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(find(schedule, device, other)), moved);
}

void swap(Schedule& schedule, size_t device, const std::string& a, const std::string& b) {
  auto& row = schedule.rows[device];
  std::swap(row[find(schedule, device, a)], row[find(schedule, device, b)]);
}

/// Expects a diagnostic of the rule whose message and notes hold each of the texts.
template <class Case>
void expect(const Case& c, const std::string& rule, const std::vector<std::string>& texts) {
  const auto found = verify_schedule(c.shape, c.schedule);
  for (const Diagnostic& d : found) {
    if (d.rule != rule) continue;
    for (const std::string& text : texts) EXPECT_THAT(d.str(), HasSubstr(text));
    EXPECT_FALSE(check_schedule(c.shape, c.schedule).ok());
    return;
  }
  std::string all;
  for (const Diagnostic& d : found) all += d.str() + "\n";
  ADD_FAILURE() << "no " << rule << " in\n" << all << print_schedule(c.schedule);
}

TEST(ScheduleRules, LoweredSchedulesHold) {
  const Chain chain;
  EXPECT_TRUE(check_schedule(chain.shape, chain.schedule).ok());
  const Replicated replicated;
  EXPECT_TRUE(check_schedule(replicated.shape, replicated.schedule).ok())
      << check_schedule(replicated.shape, replicated.schedule).diagnostic().str();
}

TEST(ScheduleRules, S1_MissingForward) {
  Chain c;
  erase(c.schedule, 1, "F1.1");
  expect(c, "S1", {"stage 1, micro-batch 1 on device 1", "0 F, 1 B"});
}

TEST(ScheduleRules, S1_BackwardTwice) {
  Chain c;
  c.schedule.rows[1].push_back(compute_action(ActionKind::kBackward, StageId(1), 0));
  expect(c, "S1", {"stage 1, micro-batch 0", "2 B"});
}

TEST(ScheduleRules, S1_InputGradientWithoutWeightGradient) {
  Chain c;
  c.schedule.rows[1][find(c.schedule, 1, "B1.0")].kind = ActionKind::kInputGradient;
  expect(c, "S1", {"0 B, 1 I, 0 W"});
}

TEST(ScheduleRules, S1_BackwardInInference) {
  Chain c;
  c.shape.training = false;
  expect(c, "S1", {"expected one F alone"});
}

TEST(ScheduleRules, S2_BackwardBeforeForward) {
  Chain c;
  swap(c.schedule, 1, "F1.1", "B1.1");
  expect(c, "S2", {"device 1", "stage 1, micro-batch 1", "before F1.1"});
}

TEST(ScheduleRules, S2_WeightBeforeInputGradient) {
  Chain c;
  auto& row = c.schedule.rows[0];
  row[find(c.schedule, 0, "B0.1")].kind = ActionKind::kWeightGradient;
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(find(c.schedule, 0, "S0")),
             compute_action(ActionKind::kInputGradient, StageId(0), 1));
  expect(c, "S2", {"W0.1 before I0.1"});
}

TEST(ScheduleRules, S2_RecomputeNotPlanned) {
  Chain c;
  c.schedule.rows[0].insert(c.schedule.rows[0].begin() + 1, compute_action(ActionKind::kRecompute, StageId(0), 0));
  expect(c, "S2", {"R0.0", "does not recompute"});
}

TEST(ScheduleRules, S2_RecomputeAfterBackwardOrTwice) {
  Chain c;
  c.shape.stages[0].recompute = true;
  const Action recompute = compute_action(ActionKind::kRecompute, StageId(0), 0);
  auto& row = c.schedule.rows[0];
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(find(c.schedule, 0, "B0.0")), recompute);
  ASSERT_TRUE(check_schedule(c.shape, c.schedule).ok());
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(find(c.schedule, 0, "B0.0")), recompute);
  expect(c, "S2", {"R0.0", "repeats"});
  erase(c.schedule, 0, "R0.0");
  swap(c.schedule, 0, "R0.0", "B0.0");
  expect(c, "S2", {"not between"});
}

TEST(ScheduleRules, S3_StageOfAnotherDevice) {
  Chain c;
  c.schedule.rows[0].push_back(compute_action(ActionKind::kForward, StageId(1), 0));
  expect(c, "S3", {"device 0", "F1.0", "stage 1 is not planned there"});
}

TEST(ScheduleRules, S3_UnknownStageAndMissingRow) {
  Chain c;
  c.schedule.rows[0].push_back(compute_action(ActionKind::kForward, StageId(7), 0));
  expect(c, "S3", {"does not refer to the plan"});
  c.schedule.rows.pop_back();
  expect(c, "S3", {"1 rows for 2 devices"});
}

TEST(ScheduleRules, S3_ReplicasDiffer) {
  Replicated c;
  for (const char* kind : {"F1.", "B1."}) swap(c.schedule, 2, kind + std::string("0"), kind + std::string("1"));
  expect(c, "S3", {"replicas of stage 1 differ", "F1.0", "F1.1"});
}

TEST(ScheduleRules, S4_SendWithoutReceive) {
  Chain c;
  erase(c.schedule, 1, "RA0.0<d0");
  expect(c, "S4", {"SA0.0>d1", "RA0.0<d0", "0 times"});
}

TEST(ScheduleRules, S4_ReceiveWithoutSend) {
  Chain c;
  erase(c.schedule, 1, "SG0.1>d0");
  expect(c, "S4", {"RG0.1<d1", "SG0.1>d0", "0 times"});
}

TEST(ScheduleRules, S4_NoSamplesShared) {
  Replicated c;
  c.shape.micro_batches = {1, 3};  // replica 0 of 2 owns none of the single sample
  expect(c, "S4", {"carries no samples", ">d1"});
}

TEST(ScheduleRules, S4_GradientOfAnInteger) {
  Chain c;
  c.shape.routes[0].gradient = false;
  expect(c, "S4", {"RG0.0<d1 carries no samples"});
}

TEST(ScheduleRules, S5_MessagesOvertake) {
  Chain c;
  c.schedule = lower_schedule(c.shape, parse_schedule("0: F0 F1 B0 B1\n1: F0 F1 B0 B1\n", c.shape).value()).value();
  move_before(c.schedule, 1, "RA0.1<d0", "RA0.0<d0");
  expect(c, "S5", {"device 0", "SA0.1>d1", "received at device 1"});
}

TEST(ScheduleRules, S6_CircleOfBlockingSends) {
  // Both devices send before they receive: harmless with buffers, a deadlock where sends block.
  PipelineShape shape = chain_shape(4, 1);
  shape.devices = 2;
  shape.training = false;
  for (uint32_t s = 0; s < 4; ++s) shape.stages[s].devices = {DeviceId(s == 1 || s == 2)};
  shape.routes = {{StageId(0), StageId(2)}, {StageId(1), StageId(3)}};
  struct {
    const PipelineShape& shape;
    Schedule schedule;
  } c{shape, parse_schedule("d0: F0.0 SA0.0>d1 RA1.0<d1 F3.0\nd1: F1.0 SA1.0>d0 RA0.0<d0 F2.0\n", shape).value()};
  expect(c, "S6", {"device 0, action 1: blocked in SA0.0>d1", "device 1, action 1: blocked in SA1.0>d0"});
}

TEST(ScheduleRules, S7_ReadBeforeReceived) {
  Chain c;
  swap(c.schedule, 1, "RA0.0<d0", "F1.0");
  expect(c, "S7", {"device 1", "F1.0 needs RA0.0<d0", "comes later"});
}

TEST(ScheduleRules, S7_SentBeforeComputed) {
  Chain c;
  swap(c.schedule, 0, "F0.0", "SA0.0>d1");
  expect(c, "S7", {"device 0", "SA0.0>d1 needs F0.0"});
}

TEST(ScheduleRules, S8_BackwardBeforeAReadersGradient) {
  PipelineShape shape = chain_shape(3, 1);
  shape.routes.push_back({StageId(0), StageId(2)});  // a skip
  struct {
    const PipelineShape& shape;
    Schedule schedule;
  } c{shape, lower_schedule(shape, parse_schedule("0: F0 B0\n1: F0 B0\n2: F0 B0\n", shape).value()).value()};
  ASSERT_TRUE(check_schedule(shape, c.schedule).ok());
  move_before(c.schedule, 0, "B0.0", "RG0.0<d1");
  expect(c, "S8", {"device 0", "B0.0 needs RG0.0<d1"});
  move_before(c.schedule, 0, "RG0.0<d1", "B0.0");
  ASSERT_TRUE(check_schedule(shape, c.schedule).ok());
  erase(c.schedule, 0, "RG2.0<d2");
  erase(c.schedule, 2, "SG2.0>d0");
  expect(c, "S8", {"B0.0 needs RG2.0<d2", "not on the row"});
}

TEST(ScheduleRules, S9_ReduceTooEarlyMissingOrNeedless) {
  Replicated c;
  move_before(c.schedule, 1, "AR1", "B1.1");
  expect(c, "S9", {"device 1", "AR1 before the stage's last weight gradient"});
  erase(c.schedule, 1, "AR1");
  expect(c, "S9", {"AR1 appears 0 times; expected 1"});
  Chain chain;
  chain.schedule.rows[0].push_back(stage_action(ActionKind::kAllReduce, StageId(0)));
  expect(chain, "S9", {"AR0 appears 1 times; expected 0"});
}

TEST(ScheduleRules, S9_CollectivesInDifferentOrder) {
  PipelineShape shape = chain_shape(2, 2);
  for (auto& stage : shape.stages) stage.devices = {DeviceId(0), DeviceId(1)};
  const char* rows = "0: F0.0 F1.0 B1.0 B0.0 F0.1 F1.1 B1.1 B0.1\n1: F0.0 F1.0 B1.0 B0.0 F0.1 F1.1 B1.1 B0.1\n";
  struct {
    const PipelineShape& shape;
    Schedule schedule;
  } c{shape, lower_schedule(shape, parse_schedule(rows, shape).value()).value()};
  shape.micro_batches = {2, 2};
  c.schedule = lower_schedule(shape, parse_schedule(rows, shape).value()).value();
  ASSERT_TRUE(check_schedule(shape, c.schedule).ok());
  move_before(c.schedule, 1, "AR1", "S0");
  expect(c, "S9", {"devices 0 and 1", "different order"});
}

TEST(ScheduleRules, S9_SumsOfBucketsEarlyMissingTwiceOrOutOfTurn) {
  const auto fresh = [] {
    Replicated c;
    c.shape.stages[1].sums = 3;
    c.schedule =
        lower_schedule(c.shape, parse_schedule("0: F0 F1 B0 B1\n1: F0 B0 F1 B1\n2: F0 B0 F1 B1\n", c.shape).value())
            .value();
    return c;
  };
  Replicated c = fresh();
  ASSERT_TRUE(check_schedule(c.shape, c.schedule).ok()) << print_schedule(c.schedule);
  EXPECT_EQ(parse_schedule(print_schedule(c.schedule), c.shape).value(), c.schedule);
  move_before(c.schedule, 2, "AR1.2", "B1.1");
  expect(c, "S9", {"device 2", "AR1.2 before the stage's last weight gradient"});
  c = fresh();
  erase(c.schedule, 1, "AR1.1");
  expect(c, "S9", {"device 1: AR1.1 appears 0 times; expected 1"});
  c = fresh();
  c.schedule.rows[1].push_back(stage_action(ActionKind::kAllReduce, StageId(1), 2));
  expect(c, "S9", {"device 1: AR1.2 appears 2 times; expected 1"});
  c = fresh();
  move_before(c.schedule, 1, "AR1.1", "AR1");
  expect(c, "S9", {"devices 1 and 2", "different order"});
  c = fresh();
  move_before(c.schedule, 1, "S1", "AR1.2");
  expect(c, "S10", {"device 1", "S1 before AR1.2"});
  c = fresh();
  c.schedule.rows[1][find(c.schedule, 1, "AR1.2")].micro_batch = 3;
  expect(c, "S3", {"AR1.3 does not refer to the plan"});
}

TEST(ScheduleRules, S10_StepMissingEarlyOrTwice) {
  Replicated c;
  move_before(c.schedule, 1, "S1", "AR1");
  expect(c, "S10", {"device 1", "S1 before AR1"});
  erase(c.schedule, 1, "S1");
  expect(c, "S10", {"S1 appears 0 times"});
  Chain chain;
  chain.schedule.rows[0].push_back(stage_action(ActionKind::kStep, StageId(0)));
  expect(chain, "S10", {"device 0", "S0 appears 2 times"});
}

TEST(ScheduleRules, ShardedSchedulesHold) {
  const Sharded c;
  EXPECT_TRUE(check_schedule(c.shape, c.schedule).ok()) << print_schedule(c.schedule);
}

TEST(ScheduleRules, S9_ReduceScatterEarlyMissingOrReplaced) {
  Sharded c;
  move_before(c.schedule, 1, "SC1", "B1.1");
  expect(c, "S9", {"device 1", "SC1 before the stage's last weight gradient"});
  for (size_t d : {1, 2}) c.schedule.rows[d][find(c.schedule, d, "SC1")].kind = ActionKind::kAllReduce;
  expect(c, "S9", {"AR1 appears 1 times; expected 0"});
  c.shape.stages[1].sharded = false;
  expect(c, "S10", {"S1 appears 0 times; expected 1"});
}

TEST(ScheduleRules, S10_UpdateOfAShareEarlyOrReplaced) {
  Sharded c;
  move_before(c.schedule, 1, "U1", "SC1");
  expect(c, "S10", {"device 1", "U1 before SC1"});
  Sharded shared;
  move_before(shared.schedule, 2, "U1", "RS0");
  expect(shared, "S10", {"device 2", "U1 before RS0"});
  Sharded whole;
  whole.schedule.rows[2][find(whole.schedule, 2, "U1")].kind = ActionKind::kStep;
  expect(whole, "S10", {"device 2", "S1 appears 1 times; expected 0"});
}

TEST(ScheduleRules, S13_GatherEarlyMissingOrNeedless) {
  Sharded c;
  move_before(c.schedule, 1, "AG1", "U1");
  expect(c, "S13", {"device 1", "AG1 before U1"});
  Sharded missing;
  erase(missing.schedule, 2, "AG1");
  expect(missing, "S13", {"device 2: AG1 appears 0 times; expected 1"});
  Replicated needless;
  needless.schedule.rows[1].push_back(stage_action(ActionKind::kAllGather, StageId(1)));
  expect(needless, "S13", {"device 1: AG1 appears 1 times; expected 0"});
}

TEST(ScheduleRules, S10_AsynchronousSchedulesAreNeverRun) {
  Chain c;
  c.schedule.changes_numbers = true;
  expect(c, "S10", {"comparison only"});
}

TEST(ScheduleRules, S11_TooLittleMemory) {
  Chain c;
  c.shape.stages[0].fixed_bytes = 100;
  c.shape.stages[0].saved_bytes = 10;
  c.shape.memory_bytes = {120, 0};
  EXPECT_TRUE(check_schedule(c.shape, c.schedule).ok());
  c.shape.memory_bytes = {119, 0};
  expect(c, "S11", {"device 0 has 119 bytes but needs 120", "F0.1"});
}

TEST(ScheduleRules, S12_SharedGradientMissingOrEarly) {
  Replicated c;
  move_before(c.schedule, 0, "RS0", "B0.1");
  expect(c, "S12", {"device 0", "RS0 before the last weight gradient"});
  erase(c.schedule, 0, "RS0");
  expect(c, "S12", {"device 0", "RS0 appears 0 times"});
}

TEST(ScheduleRules, LoweringRefusesRowsThatWaitForEachOther) {
  const PipelineShape shape = chain_shape(2, 2);
  const auto result = lower_schedule(shape, parse_schedule("0: F0 B0 F1 B1\n1: F1 B1 F0 B0\n", shape).value());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.diagnostic().rule, "S6");
  EXPECT_THAT(result.diagnostic().str(), HasSubstr("device 0 waits for ever before B0.0"));
  EXPECT_THAT(result.diagnostic().str(), HasSubstr("waits before F1.1"));
}

}  // namespace
}  // namespace rannc::ir
