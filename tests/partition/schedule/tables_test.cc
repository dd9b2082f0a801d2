/// The literal rows, bubbles and peaks that the literature gives for each schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/plan/plan.h"
#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/verify_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "tests/partition/schedule/published.h"

namespace rannc::partition {
namespace {

using ir::PipelineShape;

struct Outcome {
  double makespan = 0;
  std::vector<double> peaks;  ///< in activations of a whole rank
  double inner_idle = 0;      ///< worst device
};

/// Simulates a schedule on `ranks` devices whose work is one F, I, W per micro-batch, spread over `chunks` stages each.
Outcome outcome(const std::string& name, StageLayout layout, uint32_t ranks, uint32_t m, ComputeTimes whole) {
  const PipelineShape shape = laid_out(layout, ranks, m);
  const double chunks = static_cast<double>(shape.stages.size()) / ranks;
  const auto schedule = make_schedule(shape, {.name = name}).value();
  const ComputeTimes part{whole.forward / chunks, whole.input_gradient / chunks, whole.weight_gradient / chunks, 0};
  const auto timeline = simulate(shape, schedule, uniform_costs(shape, part)).value();
  Outcome result{timeline.makespan, {}, 0};
  for (const DeviceTimeline& device : timeline.devices) {
    result.peaks.push_back(static_cast<double>(device.peak_bytes) / chunks);
    result.inner_idle = std::max(result.inner_idle, inner_idle(device));
  }
  return result;
}

const ComputeTimes kEqual{1, 1, 1, 0};
const ComputeTimes kSkewed{1, 1.2, 0.8, 0};

class PublishedBubble : public testing::TestWithParam<published::Bubble> {};

TEST_P(PublishedBubble, MakespanAndPeak) {
  const published::Bubble& row = GetParam();
  if (row.p4_m8_equal > 0) {
    EXPECT_NEAR(outcome(row.name, row.layout, 4, 8, kEqual).makespan, row.p4_m8_equal, 1e-9);
  }
  const Outcome equal = outcome(row.name, row.layout, 8, 24, kEqual);
  EXPECT_NEAR(equal.makespan, row.p8_m24_equal, 1e-9);
  EXPECT_EQ(*std::max_element(equal.peaks.begin(), equal.peaks.end()), row.largest_peak);
  EXPECT_NEAR(outcome(row.name, row.layout, 8, 24, kSkewed).makespan, row.p8_m24_skewed, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Table, PublishedBubble, testing::ValuesIn(published::bubbles()), [](const auto& param) {
  std::string name = param.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(PublishedBubbles, PeaksOfEveryDevice) {
  const auto peaks = [](const char* name, StageLayout layout) { return outcome(name, layout, 8, 24, kEqual).peaks; };
  EXPECT_THAT(peaks("gpipe", StageLayout::kOnePerRank), testing::Each(24));
  EXPECT_THAT(peaks("1f1b", StageLayout::kOnePerRank), testing::ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_THAT(peaks("interleaved", StageLayout::kLoop), testing::ElementsAre(11.5, 10.5, 9.5, 8.5, 7.5, 6.5, 5.5, 4.5));
  EXPECT_THAT(peaks("zb-h1", StageLayout::kOnePerRank), testing::Each(8));
  EXPECT_THAT(peaks("zb-h2", StageLayout::kOnePerRank), testing::Each(15));
  EXPECT_THAT(peaks("zb-v", StageLayout::kV), testing::Each(8));
  EXPECT_THAT(peaks("v-half", StageLayout::kV), testing::Each(5));
}

TEST(PublishedBubbles, IdleInsideEachRow) {
  EXPECT_NEAR(outcome("zb-h1", StageLayout::kOnePerRank, 8, 24, kEqual).inner_idle, 7.0, 1e-9);
  EXPECT_NEAR(outcome("zb-h2", StageLayout::kOnePerRank, 8, 24, kEqual).inner_idle, 0.0, 1e-9);
  EXPECT_NEAR(outcome("zb-v", StageLayout::kV, 8, 24, kEqual).inner_idle, 0.0, 1e-9);
  EXPECT_NEAR(outcome("zb-h2", StageLayout::kOnePerRank, 8, 24, kSkewed).inner_idle, 4.2, 1e-9);
  EXPECT_NEAR(outcome("zb-v", StageLayout::kV, 8, 24, kSkewed).inner_idle, 2.8, 1e-9);
  // V-Min drifts where F, I and W differ: idle 28.5 at 24 micro-batches, 52.5 at 64.
  EXPECT_NEAR(outcome("v-min", StageLayout::kV, 8, 24, kSkewed).makespan - 72, 28.5, 1e-9);
  EXPECT_NEAR(outcome("v-min", StageLayout::kV, 8, 64, kSkewed).makespan - 192, 52.5, 1e-9);
}

/// Rates are printed with four digits, and the times with five.
TEST(PublishedBubbles, RatesOfMeasuredTimes) {
  for (const published::ZeroBubble& row : published::zero_bubbles()) {
    SCOPED_TRACE(testing::Message() << row.model << ", " << row.m << " micro-batches");
    EXPECT_NEAR(bubble_rate(row, "1f1b"), row.one_f_one_b, 6e-5);
    EXPECT_NEAR(bubble_rate(row, "zb-h1"), row.zb_h1, 6e-5);
    EXPECT_NEAR(bubble_rate(row, "zb-h2"), row.zb_h2, 6e-5);
  }
}

TEST(PublishedBubbles, ClosedForms) {
  for (uint32_t p = 2; p <= 9; ++p) {
    const uint32_t m = 3 * p;
    const ComputeTimes t{1, 1.25, 0.75, 0};  // F + I >= 2W, as the zero-bubble forms need
    const double work = 3.0 * m, whole = 3;
    EXPECT_NEAR(outcome("gpipe", StageLayout::kOnePerRank, p, m, t).makespan - work, (p - 1) * whole, 1e-9);
    EXPECT_NEAR(outcome("1f1b", StageLayout::kOnePerRank, p, m, t).makespan - work, (p - 1) * whole, 1e-9);
    EXPECT_NEAR(outcome("interleaved", StageLayout::kLoop, p, m, t).makespan - work, (p - 1) * whole / 2, 1e-9);
    EXPECT_NEAR(outcome("zb-h1", StageLayout::kOnePerRank, p, m, kEqual).makespan - work, p - 1.0, 1e-9);
    for (uint32_t s = 0; s < p; ++s) {
      EXPECT_EQ(outcome("gpipe", StageLayout::kOnePerRank, p, m, t).peaks[s], m);
      EXPECT_EQ(outcome("1f1b", StageLayout::kOnePerRank, p, m, t).peaks[s], p - s);
      EXPECT_EQ(outcome("dapple-b", StageLayout::kOnePerRank, p, m, t).peaks[s], 2 * (p - s) - 1);
      EXPECT_EQ(outcome("zb-h1", StageLayout::kOnePerRank, p, m, t).peaks[s], p);
      EXPECT_EQ(outcome("zb-h2", StageLayout::kOnePerRank, p, m, t).peaks[s], 2 * p - 1);
      EXPECT_EQ(outcome("zb-v", StageLayout::kV, p, m, t).peaks[s], p);
    }
    EXPECT_EQ(outcome("interleaved", StageLayout::kLoop, p, m, t).peaks[0], p * (1 + (p - 1.0) / (2 * p)));
    const auto half = outcome("v-half", StageLayout::kV, p, m, t).peaks,
               least = outcome("v-min", StageLayout::kV, p, m, t).peaks;
    EXPECT_EQ(*std::max_element(half.begin(), half.end()), (p + 2) / 2) << p;
    EXPECT_EQ(*std::max_element(least.begin(), least.end()), (p + 4) / 3) << p;
  }
}

std::string table(const std::string& name, StageLayout layout, uint32_t ranks, uint32_t m) {
  return ir::print_compute_rows(make_schedule(laid_out(layout, ranks, m), {.name = name}).value());
}

TEST(Tables, GPipe) {
  EXPECT_EQ(table("gpipe", StageLayout::kOnePerRank, 2, 3), "0: F0 F1 F2 B2 B1 B0\n1: F0 F1 F2 B2 B1 B0\n");
}

TEST(Tables, PolicyA) {
  EXPECT_EQ(table("1f1b", StageLayout::kOnePerRank, 4, 8),
            "0: F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7\n"
            "1: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7\n"
            "2: F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7\n"
            "3: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
}

TEST(Tables, Serial) {
  EXPECT_EQ(table("serial", StageLayout::kOnePerRank, 2, 3), "0: F0 B0 F1 B1 F2 B2\n1: F0 B0 F1 B1 F2 B2\n");
  EXPECT_EQ(table("serial", StageLayout::kV, 2, 2),
            "0: F0.0 F3.0 B3.0 B0.0 F0.1 F3.1 B3.1 B0.1\n"
            "1: F1.0 F2.0 B2.0 B1.0 F1.1 F2.1 B2.1 B1.1\n");
}

TEST(Tables, PolicyB) {
  EXPECT_EQ(table("dapple-b", StageLayout::kOnePerRank, 3, 6),
            "0: F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5\n"
            "1: F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5\n"
            "2: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5\n");
}

TEST(Tables, ZbH1) {
  EXPECT_EQ(table("zb-h1", StageLayout::kOnePerRank, 4, 8),
            "0: F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7\n"
            "1: F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6 W7\n"
            "2: F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5 W6 W7\n"
            "3: F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4 W5 W6 W7\n");
}

TEST(Tables, ZbH2) {
  EXPECT_EQ(table("zb-h2", StageLayout::kOnePerRank, 4, 8),
            "0: F0 F1 F2 F3 F4 F5 F6 I0 W0 F7 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 I6 W6 I7 W7\n"
            "1: F0 F1 F2 F3 F4 I0 F5 I1 F6 I2 W0 F7 I3 W1 I4 W2 I5 W3 I6 W4 I7 W5 W6 W7\n"
            "2: F0 F1 F2 I0 F3 I1 F4 I2 F5 I3 F6 I4 W0 F7 I5 W1 I6 W2 I7 W3 W4 W5 W6 W7\n"
            "3: F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 F6 I6 W0 F7 I7 W1 W2 W3 W4 W5 W6 W7\n");
}

TEST(Tables, InterleavedLastRank) {
  const std::string rows = table("interleaved", StageLayout::kLoop, 4, 8);
  EXPECT_THAT(rows, testing::HasSubstr("3: F3.0 F3.1 F3.2 F3.3 F7.0 B7.0 F7.1 B7.1 F7.2 B7.2 F7.3 B7.3 F3.4 B3.0 F3.5 "
                                       "B3.1 F3.6 B3.2 F3.7 B3.3 F7.4 B7.4 "));
  const auto peaks = outcome("interleaved", StageLayout::kLoop, 4, 8, kEqual).peaks;
  EXPECT_THAT(peaks, testing::ElementsAre(5.5, 4.5, 3.5, 2.5));
}

TEST(Tables, ZbV) {
  EXPECT_EQ(table("zb-v", StageLayout::kV, 2, 3),
            "0: F0.0 F0.1 F0.2 F3.0 I3.0 W3.0 F3.1 I3.1 W3.1 I0.0 W0.0 F3.2 I3.2 W3.2 I0.1 W0.1 I0.2 W0.2\n"
            "1: F1.0 F2.0 F1.1 F2.1 I2.0 W2.0 F1.2 I1.0 W1.0 F2.2 I2.1 W2.1 I1.1 I2.2 I1.2 W1.1 W2.2 W1.2\n");
}

/// torchgpipe's clock cycles: task (micro-batch, partition) runs in cycle micro-batch + partition.
TEST(Tables, ClockCyclesOfTheForwardPass) {
  PipelineShape shape = ir::chain_shape(3, 4);
  shape.training = false;
  const auto schedule = make_schedule(shape, {.name = "gpipe"}).value();
  const auto timeline = simulate(shape, schedule, uniform_costs(shape, kEqual)).value();
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> cycles(6);
  for (uint32_t d = 0; d < 3; ++d) {
    for (size_t i = 0; i < schedule.rows[d].size(); ++i) {
      cycles.at(static_cast<size_t>(timeline.spans[d][i].start)).emplace_back(schedule.rows[d][i].micro_batch, d);
    }
  }
  const std::vector<std::vector<std::pair<uint32_t, uint32_t>>> expected = {
      {{0, 0}}, {{1, 0}, {0, 1}}, {{2, 0}, {1, 1}, {0, 2}}, {{3, 0}, {2, 1}, {1, 2}}, {{3, 1}, {2, 2}}, {{3, 2}}};
  EXPECT_EQ(cycles, expected);
}

/// Backward passes in the cycles of the forward ones mirrored: the last micro-batch comes back first.
TEST(Tables, BackwardPassesRunInReverseOrder) {
  const PipelineShape shape = ir::chain_shape(3, 4);
  const auto schedule = make_schedule(shape, {.name = "gpipe"}).value();
  EXPECT_EQ(ir::print_compute_rows(schedule),
            "0: F0 F1 F2 F3 B3 B2 B1 B0\n1: F0 F1 F2 F3 B3 B2 B1 B0\n2: F0 F1 F2 F3 B3 B2 B1 B0\n");
  // A backward pass that takes one cycle, too.
  const auto timeline = simulate(shape, schedule, uniform_costs(shape, {1, 1, 0, 0})).value();
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> cycles(6);
  for (uint32_t d = 0; d < 3; ++d) {
    for (size_t i = 4; i < 8; ++i) {
      cycles.at(static_cast<size_t>(timeline.spans[d][i].start) - 6).emplace_back(schedule.rows[d][i].micro_batch, d);
    }
  }
  const std::vector<std::vector<std::pair<uint32_t, uint32_t>>> expected = {
      {{3, 2}}, {{3, 1}, {2, 2}}, {{3, 0}, {2, 1}, {1, 2}}, {{2, 0}, {1, 1}, {0, 2}}, {{1, 0}, {0, 1}}, {{0, 0}}};
  EXPECT_EQ(cycles, expected);
}

/// torchgpipe's checkpoint modes: a stage repeats the forward pass of every micro-batch but the last one, whose
/// gradient comes at once, or of none; also where the samples do not divide (5 in 4, 9 in 8).
TEST(Tables, RecomputeExceptTheLastMicroBatch) {
  const auto rows = [](uint32_t samples, uint32_t count, bool recompute) {
    PipelineShape shape = ir::chain_shape(2, count);
    shape.micro_batches = ir::split_mini_batch(samples, count);
    for (ir::StageShape& stage : shape.stages) stage.recompute = recompute;
    return ir::print_compute_rows(make_schedule(shape, {.name = "gpipe"}).value());
  };
  const std::string of_four = "F0 F1 F2 F3 B3 R2 B2 R1 B1 R0 B0\n";
  EXPECT_EQ(rows(5, 4, true), "0: " + of_four + "1: " + of_four);
  EXPECT_EQ(rows(4, 4, true), rows(5, 4, true));
  EXPECT_EQ(rows(5, 4, false), "0: F0 F1 F2 F3 B3 B2 B1 B0\n1: F0 F1 F2 F3 B3 B2 B1 B0\n");
  const std::string of_eight = rows(9, 8, true);
  EXPECT_EQ(std::count(of_eight.begin(), of_eight.end(), 'R'), 2 * 7);
  EXPECT_THAT(of_eight, testing::HasSubstr("F7 B7 R6 B6"));
  EXPECT_THAT(ir::split_mini_batch(5, 4), testing::ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(ir::split_mini_batch(9, 8), testing::ElementsAre(2, 1, 1, 1, 1, 1, 1, 1));
}

/// The modes differ in the micro-batches whose backward pass follows at once: 5 samples in 4, 9 in 8.
TEST(Tables, RecomputeOfAllMicroBatches) {
  using Which = ir::RecomputedMicroBatches;
  const auto rows = [](const std::string& name, uint32_t samples, uint32_t count, Which which) {
    PipelineShape shape = ir::chain_shape(2, count);
    shape.micro_batches = ir::split_mini_batch(samples, count);
    for (ir::StageShape& stage : shape.stages) stage.recompute = true;
    const auto schedule = make_schedule(shape, {.name = name, .recomputed = which}).value();
    EXPECT_TRUE(ir::check_schedule(shape, ir::lower_schedule(shape, schedule).value()).ok());
    return ir::print_compute_rows(schedule);
  };
  EXPECT_EQ(rows("gpipe", 5, 4, Which::kAll),
            "0: F0 F1 F2 F3 R3 B3 R2 B2 R1 B1 R0 B0\n1: F0 F1 F2 F3 R3 B3 R2 B2 R1 B1 R0 B0\n");
  EXPECT_EQ(rows("1f1b", 5, 4, Which::kAll),
            "0: F0 F1 R0 B0 F2 R1 B1 F3 R2 B2 R3 B3\n1: F0 R0 B0 F1 R1 B1 F2 R2 B2 F3 R3 B3\n");
  EXPECT_EQ(rows("1f1b", 5, 4, Which::kAllButLast),
            "0: F0 F1 R0 B0 F2 R1 B1 F3 R2 B2 B3\n1: F0 R0 B0 F1 R1 B1 F2 R2 B2 F3 B3\n");
  EXPECT_EQ(rows("1f1b", 5, 4, Which::kUnlessBackwardFollows),
            "0: F0 F1 R0 B0 F2 R1 B1 F3 R2 B2 R3 B3\n1: F0 B0 F1 B1 F2 B2 F3 B3\n");
  for (const auto& [which, count] : {std::pair(Which::kAll, 8), std::pair(Which::kAllButLast, 7)}) {
    for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
      const std::string of_eight = rows(name, 9, 8, which);
      EXPECT_EQ(std::count(of_eight.begin(), of_eight.end(), 'R'), 2 * count) << name;
    }
  }
}

/// Where the row is idle, R stands before the receive of the gradient, which it does not need.
TEST(Tables, RecomputeStandsBeforeTheArrivingGradient) {
  PipelineShape shape = ir::chain_shape(2, 2);
  for (ir::StageShape& stage : shape.stages) stage.recompute = true;
  const auto rows = make_schedule(shape, {.name = "gpipe", .recomputed = ir::RecomputedMicroBatches::kAll}).value();
  EXPECT_EQ(ir::print_schedule(ir::lower_schedule(shape, rows).value()),
            "schedule gpipe lowered\n"
            "d0: F0.0 SA0.0>d1 F0.1 SA0.1>d1 R0.1 RG0.1<d1 B0.1 R0.0 RG0.0<d1 B0.0 S0\n"
            "d1: RA0.0<d0 F1.0 RA0.1<d0 F1.1 R1.1 B1.1 SG0.1>d0 R1.0 B1.0 SG0.0>d0 S1\n");
}

TEST(WarmUpLatency, GPipeAndBothPoliciesOfDapple) {
  const PipelineShape shape = ir::chain_shape(4, 16);
  for (const auto& row : published::latencies()) {
    const auto makespan = [&](const char* name) {
      const auto compute = make_schedule(shape, {.name = name}).value();
      const auto costs = uniform_costs(shape, {1, 1, 1, 0}, row.latency);
      const double result = simulate(shape, compute, costs).value().makespan;
      const auto lowered = ir::lower_schedule(shape, compute).value();
      EXPECT_EQ(simulate(shape, lowered, costs).value().makespan, result) << name;
      return result;
    };
    EXPECT_DOUBLE_EQ(makespan("gpipe"), row.gpipe) << row.latency;
    EXPECT_DOUBLE_EQ(makespan("1f1b"), row.policy_a) << row.latency;
    EXPECT_DOUBLE_EQ(makespan("dapple-b"), row.policy_b) << row.latency;
  }
}

// Rows of many micro-batches are extended. Each micro-batch more takes the six slots of its passes, with equal peaks.
TEST(VSchedules, LongRowsGoOnLikeShorterOnes) {
  for (const char* name : {"v-half", "v-min"}) {
    for (uint32_t p = 1; p <= 8; ++p) {
      SCOPED_TRACE(::testing::Message() << name << " on " << p << " ranks");
      const uint32_t whole = 4 * p + 8;  // the longest row without an extension
      const Outcome shorter = outcome(name, StageLayout::kV, p, whole, {2, 2, 2, 0});
      for (const uint32_t more : {1, 2, 9, 300}) {
        const Outcome longer = outcome(name, StageLayout::kV, p, whole + more, {2, 2, 2, 0});
        EXPECT_DOUBLE_EQ(longer.makespan, shorter.makespan + 6 * more);
        EXPECT_EQ(longer.peaks, shorter.peaks);
      }
    }
  }
}

}  // namespace
}  // namespace rannc::partition
