/// Text form of schedules.
#include <gtest/gtest.h>

#include <random>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/schedule.h"

namespace rannc::ir {
namespace {

/// Stage 0 replicated on d0 and d1, stages 1 and 2 on d2; a skip from 0 to 2; 0 and 2 share a parameter.
PipelineShape mixed_shape() {
  PipelineShape shape = chain_shape(3, 2);
  shape.devices = 3;
  shape.stages[0].devices = {DeviceId(0), DeviceId(1)};
  shape.stages[1].devices = shape.stages[2].devices = {DeviceId(2)};
  shape.routes.push_back({StageId(0), StageId(2), 4, false});
  shape.shared.push_back({{StageId(0), StageId(2)}, 8});
  shape.micro_batches = {3, 2};
  return shape;
}

Schedule mixed_schedule(const PipelineShape& shape) {
  const char* rows =
      "0: F0 F1 B0 B1\n"
      "1: F0 F1 B0 B1\n"
      "2: F1.0 F2.0 B2.0 B1.0 F1.1 F2.1 B2.1 B1.1\n";
  return lower_schedule(shape, parse_schedule(rows, shape).value()).value();
}

TEST(ScheduleText, RoundTripsEveryKindOfAction) {
  const PipelineShape shape = mixed_shape();
  const Schedule schedule = mixed_schedule(shape);
  const std::string text = print_schedule(schedule);
  EXPECT_EQ(parse_schedule(text, shape).value(), schedule);
  EXPECT_EQ(print_schedule(parse_schedule(text, shape).value()), text);
}

TEST(ScheduleText, IsReadable) {
  EXPECT_EQ(print_schedule(mixed_schedule(mixed_shape())),
            "schedule table lowered\n"
            "d0: F0.0 SA0.0>d2 SA2.0>d2 F0.1 SA0.1>d2 SA2.1>d2 RG0.0<d2 B0.0 RG0.1<d2 B0.1 AR0 RS0 S0\n"
            "d1: F0.0 SA0.0>d2 SA2.0>d2 F0.1 SA0.1>d2 SA2.1>d2 RG0.0<d2 B0.0 RG0.1<d2 B0.1 AR0 RS0 S0\n"
            "d2: RA0.0<d0 RA2.0<d0 RA0.0<d1 RA2.0<d1 F1.0 RA0.1<d0 RA2.1<d0 RA0.1<d1 RA2.1<d1 F2.0 B2.0 B1.0 SG0.0>d0 "
            "SG0.0>d1 F1.1 F2.1 B2.1 B1.1 SG0.1>d0 SG0.1>d1 RS0 S1 S2\n");
}

TEST(ScheduleText, ShowsShardedStages) {
  PipelineShape shape = mixed_shape();
  shape.stages[0].sharded = true;
  const Schedule schedule = mixed_schedule(shape);
  const std::string text = print_schedule(schedule);
  EXPECT_NE(text.find("B0.1 SC0 RS0 U0 AG0\n"), std::string::npos) << text;
  EXPECT_EQ(parse_schedule(text, shape).value(), schedule);
}

TEST(ScheduleText, ReadsSplitBackwardAndRecompute) {
  const PipelineShape shape = chain_shape(1, 1);
  const Schedule schedule =
      parse_schedule("schedule zb asynchronous # a comment\n\nd0: F0 R0.0 I0 W0\n", shape).value();
  EXPECT_EQ(schedule.name, "zb");
  EXPECT_TRUE(schedule.changes_numbers);
  EXPECT_EQ(print_schedule(schedule), "schedule zb asynchronous\nd0: F0.0 R0.0 I0.0 W0.0\n");
  EXPECT_EQ(print_compute_rows(schedule), "0: F0 R0 I0 W0\n");
}

TEST(ScheduleText, ComputeRowsNameStagesOnlyWhereADeviceHasSeveral) {
  EXPECT_EQ(print_compute_rows(mixed_schedule(mixed_shape())),
            "0: F0 F1 B0 B1\n"
            "1: F0 F1 B0 B1\n"
            "2: F1.0 F2.0 B2.0 B1.0 F1.1 F2.1 B2.1 B1.1\n");
}

// One stage that only computes has no transfer, collective or step: the schedule itself says that it is complete.
TEST(ScheduleText, SaysThatItIsLowered) {
  PipelineShape shape = chain_shape(1, 2);
  shape.training = false;
  const Schedule rows = parse_schedule("schedule 1f1b\nd0: F0.0 F0.1\n", shape).value();
  EXPECT_FALSE(rows.lowered);
  const Schedule schedule = lower_schedule(shape, rows).value();
  EXPECT_TRUE(schedule.lowered);
  EXPECT_EQ(schedule.rows, rows.rows);
  EXPECT_EQ(print_schedule(schedule), "schedule 1f1b lowered\nd0: F0.0 F0.1\n");
  EXPECT_EQ(parse_schedule(print_schedule(schedule), shape).value(), schedule);
  EXPECT_NE(digest(schedule), digest(rows));
}

TEST(ScheduleText, OlderTextIsLoweredWhereItHasTransfersOrSteps) {
  const PipelineShape shape = chain_shape(1, 1);
  EXPECT_TRUE(parse_schedule("schedule 1f1b\nd0: F0.0 B0.0 S0\n", shape).value().lowered);
  EXPECT_FALSE(parse_schedule("schedule 1f1b\nd0: F0.0 B0.0\n", shape).value().lowered);
}

TEST(ScheduleText, DigestSeesRowsNameAndFlag) {
  const PipelineShape shape = mixed_shape();
  const Schedule schedule = mixed_schedule(shape);
  Schedule other = schedule;
  EXPECT_EQ(digest(schedule), digest(other));
  EXPECT_EQ(digest(schedule).size(), 16u);
  std::swap(other.rows[0][0], other.rows[0][3]);
  EXPECT_NE(digest(schedule), digest(other));
  other = schedule;
  other.changes_numbers = true;
  EXPECT_NE(digest(schedule), digest(other));
  other = schedule;
  other.name = "gpipe";
  EXPECT_NE(digest(schedule), digest(other));
}

TEST(ScheduleText, ErrorsNamePlaceAndCause) {
  const PipelineShape shape = mixed_shape();
  const struct {
    const char* text;
    uint32_t line, column;
    const char* message;
  } kCases[] = {
      {"d3: F0.0", 1, 1, "device 3 is not one of the 3"},
      {"schedule x\nd0: F0.0 G0.0", 2, 10, "`G0.0` is no action"},
      {"d0: F0.", 1, 5, "no action"},
      {"d0: F0.0x", 1, 5, "no action"},
      {"d0: F0.2", 1, 5, "micro-batch 2 of 2"},
      {"d0: F3.0", 1, 5, "stage 3 of 3"},
      {"d2: F0", 1, 5, "names no stage, but device 2 has 2"},
      {"d0: SA3.0>d2", 1, 5, "route 3 of 3"},
      {"d0: SA0.0>d3", 1, 5, "device 3 of 3"},
      {"d0: SA0.0<d2", 1, 5, "no action"},
      {"d0: RS1", 1, 5, "group 1 of 1"},
      {"d0: AR3", 1, 5, "stage 3 of 3"},
      {"d0: F99999999999.0", 1, 5, "no action"},
      {"d0: F0.0\nd0: F0.1", 2, 1, "second row"},
      {"0 F0.0", 1, 1, "expected `d<device>:`"},
      {"schedule a b", 1, 12, "expected `asynchronous`, `lowered`"},
      {"schedule", 1, 9, "expected a name"},
  };
  for (const auto& c : kCases) {
    const auto result = parse_schedule(c.text, shape, "table.txt");
    ASSERT_FALSE(result.ok()) << c.text;
    const Diagnostic& d = result.diagnostic();
    EXPECT_EQ(d.where.file, "table.txt");
    EXPECT_EQ(d.where.line, c.line) << c.text;
    EXPECT_EQ(d.where.column, c.column) << c.text;
    EXPECT_NE(d.message.find(c.message), std::string::npos) << d.message;
  }
}

/// Damaged text gives a diagnostic, or a schedule that prints and reads back.
TEST(ScheduleText, DamagedTextNeverCrashes) {
  const PipelineShape shape = mixed_shape();
  const std::string whole = print_schedule(mixed_schedule(shape));
  uint32_t read = 0;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937_64 random(seed);
    std::string text = whole;
    for (size_t i = 0, n = 1 + random() % 3; i < n; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text[at] = whole[random() % whole.size()];
          break;
        case 2:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, whole.substr(random() % whole.size(), random() % 12));
      }
      if (text.empty()) break;
    }
    const auto result = parse_schedule(text, shape);
    if (!result.ok()) continue;
    ++read;
    ASSERT_EQ(parse_schedule(print_schedule(*result), shape).value(), *result) << "seed " << seed << "\n" << text;
  }
  EXPECT_GT(read, 500u);
}

}  // namespace
}  // namespace rannc::ir
