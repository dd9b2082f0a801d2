// Where sums over replicas begin, as literals.
#include "ir/schedule/early_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"

namespace rannc::ir {
namespace {

using ::testing::ElementsAre;

Schedule lowered(const PipelineShape& shape, const char* rows) {
  return lower_schedule(shape, parse_schedule(rows, shape).value()).value();
}

std::string row(const Schedule& schedule, uint32_t device) {
  std::string text;
  for (const Action& action : schedule.rows[device]) text += (text.empty() ? "" : " ") + to_string(action);
  return text;
}

/// Two stages with two replicas each. The sums of the first one have two buckets.
PipelineShape replicated() {
  PipelineShape shape = chain_shape(2, 1);
  shape.devices = 4;
  shape.micro_batches = {2};
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[1].devices = {DeviceId(2), DeviceId(3)};
  shape.stages[0].sums = 2;
  return shape;
}

TEST(EarlySums, BeginBehindTheLastBackwardPass) {
  const PipelineShape shape = replicated();
  const Schedule schedule = lowered(shape, "0: F0 B0\n1: F0 B0\n2: F0 B0\n3: F0 B0");
  EXPECT_THAT(early_sums(shape, schedule, {false, false}), ElementsAre(true, true));
  const Schedule begun = rows_with_early_sums(shape, schedule, {true, true});
  EXPECT_EQ(row(schedule, 2), "RA0.0<d0 F1.0 B1.0 SG0.0>d0 AR1 S1");
  EXPECT_EQ(row(begun, 2), "RA0.0<d0 F1.0 B1.0 AR1 SG0.0>d0 S1");
  EXPECT_EQ(row(begun, 0), row(schedule, 0));
  EXPECT_EQ(row(rows_with_early_sums(shape, schedule, {true, false}), 2), row(schedule, 2));
}

/// Stage 0 on the devices 0 and 1, stage 1 on 2 and 0. Before its own backward pass of stage 1, device 0 runs that of
/// stage 0, for which it needs a gradient of device 2. If the sum of stage 1 began on device 2 before that gradient
/// left, and nothing of a device went on beside it, device 0 would never come to the sum.
PipelineShape crossed() {
  PipelineShape shape = chain_shape(2, 1);
  shape.devices = 3;
  shape.micro_batches = {2};
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[1].devices = {DeviceId(2), DeviceId(0)};
  return shape;
}

TEST(EarlySums, KeepTheirPlaceWhereAnotherMemberWouldWaitForThem) {
  const PipelineShape shape = crossed();
  const Schedule schedule = lowered(shape, "0: F0.0 F1.0 B0.0 B1.0\n1: F0.0 B0.0\n2: F1.0 B1.0");
  ASSERT_TRUE(check_schedule(shape, schedule).ok());
  EXPECT_THAT(early_sums(shape, schedule, {false, false}), ElementsAre(true, false));
  const Schedule other = lowered(shape, "0: F0.0 F1.0 B1.0 B0.0\n1: F0.0 B0.0\n2: F1.0 B1.0");
  EXPECT_THAT(early_sums(shape, other, {false, false}), ElementsAre(true, true));
}

}  // namespace
}  // namespace rannc::ir
