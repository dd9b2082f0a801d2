// The time of a step is accounted for completely, and each part for its reason.
#include "tools/run/step_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tools/run/explain_step.h"
#include "tools/run/run_report.h"

namespace rannc::tools {
namespace {

using ir::Action;
using ir::ActionKind;
using runtime::ActionRecord;
using ::testing::HasSubstr;

ir::Plan plan_of(const rannc::testing::PlanSpec& spec) {
  ir::Plan plan = rannc::testing::build_plan(rannc::testing::skip_and_tie(ir::DType::kF32), spec);
  plan.stage_times.clear();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stage_times.push_back({.stage = StageId::from(s), .samples = 2, .forward_ns = 10'000, .backward_ns = 30'000});
    plan.finish_times.push_back({.stage = StageId::from(s), .all_reduce_ns = 4'000, .optimizer_ns = 1'000});
  }
  return plan;
}

TEST(StepAccount, APlannedStepIsCompute_BubbleAndSums) {
  const ir::Plan plan = plan_of({.cuts = {4}, .micro_batches = {2, 2}, .early_backward = false});
  const StepAccount step = planned_account(planned_spans(plan).value(), 2);
  for (const StepParts& device : step.devices) {
    EXPECT_NEAR(device.total(), step.step_ns, 1e-6);
    EXPECT_DOUBLE_EQ(device.compute, 2 * 10'000 + 2 * 30'000 + 1'000);
  }
  // Device 1 waits for the first forward pass of stage 0; device 0 for the first backward pass of stage 1.
  EXPECT_DOUBLE_EQ(step.devices[1].bubble, 10'000);
  EXPECT_GE(step.devices[0].bubble, 10'000 + 30'000);
}

TEST(StepAccount, EveryScheduleIsAccountedForCompletely) {
  for (const bool split : {false, true}) {
    for (const std::vector<uint32_t>& replicas : {std::vector<uint32_t>{1, 1}, {2, 1}}) {
      const ir::Plan plan =
          plan_of({.cuts = {4}, .replicas = replicas, .micro_batches = {2, 2, 2}, .split_backward = split});
      const auto devices = static_cast<uint32_t>(plan.devices.size());
      const StepAccount step = planned_account(planned_spans(plan).value(), devices);
      ASSERT_EQ(step.devices.size(), devices);
      for (const StepParts& device : step.devices) EXPECT_NEAR(device.total(), step.step_ns, 1e-6) << split;
    }
  }
}

Action action(ActionKind kind, uint32_t stage, uint32_t route = Action::kNone, uint32_t peer = 0) {
  Action made{.kind = kind, .route = route, .stage = StageId(stage)};
  if (route != Action::kNone) made.peer = DeviceId(peer);
  return made;
}

/// Two stages: device 0 computes until 100 and sends until 110; device 1 waits until 130 and computes until 230. Both
/// join a sum, of which the last member comes at 250, until 300.
std::vector<ActionRecord> records_of_step(uint64_t step, int64_t begin) {
  const DeviceId first(0), second(1);
  return {{step, first, action(ActionKind::kForward, 0), begin, begin + 100, 0, 0},
          {step, first, action(ActionKind::kSendActivation, 0, 0, 1), begin + 100, begin + 110, 0, 0},
          {step, first, action(ActionKind::kReduceShared, 0, 0), begin + 115, begin + 300, 0, 0},
          {step, second, action(ActionKind::kReceiveActivation, 1, 0, 0), begin, begin + 1, 0, 0},
          {step, second, action(ActionKind::kForward, 1), begin + 1, begin + 230, 129, 0},
          {step, second, action(ActionKind::kReduceShared, 1, 0), begin + 250, begin + 300, 0, 0}};
}

TEST(StepAccount, MeasuredWaitsAreDividedByTheirReason) {
  std::vector<ActionRecord> records = records_of_step(1, 5000);
  for (ActionRecord& record : records_of_step(0, 0)) {  // the first step is not representative
    record.end_ns += 1000;
    records.push_back(record);
  }
  const auto steps = measured_accounts(records, 2);
  ASSERT_EQ(steps.size(), 1U);
  const StepAccount& step = steps.front();
  EXPECT_DOUBLE_EQ(step.step_ns, 300);
  const StepParts &first = step.devices[0], &second = step.devices[1];
  EXPECT_DOUBLE_EQ(first.compute, 100);
  EXPECT_DOUBLE_EQ(first.messages, 10 + 50) << "posting a message, and the sum once both have joined";
  EXPECT_DOUBLE_EQ(first.between, 5);
  EXPECT_DOUBLE_EQ(first.slowest, 135);
  EXPECT_DOUBLE_EQ(second.compute, 100);
  EXPECT_DOUBLE_EQ(second.bubble, 99) << "until device 0 begins to send";
  EXPECT_DOUBLE_EQ(second.messages, 1 + 30 + 50);
  EXPECT_DOUBLE_EQ(second.between, 20);
  EXPECT_DOUBLE_EQ(first.total(), 300);
  EXPECT_DOUBLE_EQ(second.total(), 300);
}

TEST(StepAccount, ClocksThatDisagreeChangeNoTotal) {
  std::vector<ActionRecord> records = records_of_step(0, 0);
  records[1].start_ns = 400;  // sent after it was received
  records[1].end_ns = 400;
  const auto steps = measured_accounts(records, 2);
  EXPECT_DOUBLE_EQ(steps.front().devices[1].bubble, 129);
  EXPECT_DOUBLE_EQ(steps.front().devices[1].total(), steps.front().step_ns);
}

TEST(StepAccount, PlannedAndMeasuredActionsAreCompared) {
  const ir::Plan plan = plan_of({.cuts = {4}, .micro_batches = {2, 2}, .early_backward = false});
  const auto planned = planned_spans(plan).value();
  std::vector<ActionRecord> records;
  for (const uint64_t step : {0, 1, 2}) {  // every computation takes a tenth longer, in step 2 twice as long
    for (const runtime::PlannedSpan& span : planned) {
      const double stretched = (span.end_ns - span.start_ns) * (step == 2 ? 2 : 1.1);
      const auto start = static_cast<int64_t>(span.start_ns * 4);
      records.push_back({step, span.device, span.action, start, start + static_cast<int64_t>(stretched), 0, 0});
    }
  }
  records.erase(records.begin() + static_cast<std::ptrdiff_t>(2 * planned.size()), records.end());
  const PlannedBesideActual found = planned_beside_actual(plan, planned, records);
  EXPECT_EQ(found.steps, 1U);
  EXPECT_NEAR(found.median_difference, 0.1, 1e-3);
  for (const auto& device : found.devices) EXPECT_NEAR(device.measured.total(), found.measured_step_ns, 1e-6);
  ASSERT_EQ(found.rows.size(), 8U) << "F, B and S of two stages, and the sums of a shared parameter";
  EXPECT_EQ(found.rows[0].count, 2U);
  EXPECT_NEAR(found.rows[0].planned_ns, 10'000, 1);
  EXPECT_NEAR(found.rows[0].measured_ns, 11'000, 1);
  EXPECT_THAT(step_text(found), HasSubstr("stage 0     F x2          0.010 / 0.011   +10.0 %"));
  EXPECT_THAT(step_text(found), HasSubstr("median difference of an action from the plan: 10.0 %"));
  EXPECT_THAT(step_actions(found), HasSubstr("\n0\tF0.1\t10000\t"));
  EXPECT_EQ(step_text(planned_beside_actual(plan, planned, {})), "") << "nothing was measured";
  EXPECT_EQ(step_html(planned_beside_actual(plan, planned, {})), "");
}

}  // namespace
}  // namespace rannc::tools
