/// What staleness would buy: asynchronous schedules beside synchronous ones.
#include "partition/schedule/asynchronous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/schedule/verify_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"

namespace rannc::partition {
namespace {

TEST(Asynchronous, HasNoBubbleInItsSteadyPart) {
  const auto shape = ir::chain_shape(4, 64);
  const auto costs = uniform_costs(shape, {1, 1, 1, 0});
  for (const uint32_t steps_every : {1u, 4u}) {
    const auto schedule = asynchronous_schedule(shape, steps_every).value();
    const auto timeline = simulate(shape, schedule, costs).value();
    EXPECT_DOUBLE_EQ(timeline.period, 3);
  }
  // A synchronous mini-batch of 8 micro-batches pays its bubble every time: 33 for 24 of work.
  const auto step = ir::chain_shape(4, 8);
  EXPECT_DOUBLE_EQ(simulate(step, make_schedule(step, {.name = "1f1b"}).value(), costs).value().makespan / 8, 33.0 / 8);
}

TEST(Asynchronous, RowsStepWithoutAFlush) {
  const auto shape = ir::chain_shape(2, 4);
  EXPECT_EQ(ir::print_schedule(asynchronous_schedule(shape, 2).value()),
            "schedule async-2bw asynchronous lowered\n"
            "d0: F0.0 SA0.0>d1 F0.1 SA0.1>d1 RG0.0<d1 B0.0 F0.2 SA0.2>d1 RG0.1<d1 B0.1 S0 F0.3 SA0.3>d1 RG0.2<d1 B0.2 "
            "RG0.3<d1 B0.3 S0\n"
            "d1: RA0.0<d0 F1.0 RA0.1<d0 B1.0 SG0.0>d0 F1.1 B1.1 RA0.2<d0 SG0.1>d0 S1 F1.2 B1.2 RA0.3<d0 SG0.2>d0 F1.3 "
            "B1.3 SG0.3>d0 S1\n");
}

TEST(Asynchronous, IsNeverTakenForExact) {
  const auto shape = ir::chain_shape(4, 8);
  for (const uint32_t steps_every : {1u, 4u}) {
    const auto schedule = asynchronous_schedule(shape, steps_every).value();
    EXPECT_TRUE(schedule.changes_numbers);
    const auto proved = ir::check_schedule(shape, schedule);
    ASSERT_FALSE(proved.ok());
    EXPECT_EQ(proved.diagnostic().rule, "S10");
    EXPECT_THAT(ir::print_schedule(schedule), testing::HasSubstr(" asynchronous lowered\n"));
  }
}

TEST(Asynchronous, WeightVersions) {
  const auto shape = ir::chain_shape(4, 8);
  EXPECT_THAT(weight_versions(shape, 1), testing::ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(weight_versions(shape, 4), testing::ElementsAre(2, 2, 2, 2));
  EXPECT_FALSE(asynchronous_schedule(shape, 0).ok());
  EXPECT_THAT(asynchronous_schedule(shape, 3).diagnostic().message, testing::HasSubstr("3 < 4"));
}

}  // namespace
}  // namespace rannc::partition
