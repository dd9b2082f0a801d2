/// The literal rows, bubbles and peaks that the literature gives for each schedule.
#include <gtest/gtest.h>

#include "ir/lower_schedule.h"
#include "ir/verify_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "tests/partition/schedule/shapes.h"

namespace rannc::partition {
namespace {

using ir::PipelineShape;

struct Outcome {
  double makespan = 0;
  std::vector<double> peaks;  ///< in activations of a whole rank
  double inner_idle = 0;      ///< worst device
};

/// Simulates a schedule on `ranks` devices whose work is one F, I, W per micro-batch, spread over `chunks` stages each.
Outcome outcome(const std::string& name, Layout layout, uint32_t ranks, uint32_t m, ComputeTimes whole) {
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

struct Golden {
  const char* name;
  Layout layout;
  double p4_m8, p8_m24, p8_m24_skewed;  ///< makespans; 0: not given
  std::vector<double> peaks;            ///< p=8, m=24
};

class PublishedBubbles : public testing::TestWithParam<Golden> {};

TEST_P(PublishedBubbles, MakespanAndPeaks) {
  const Golden& golden = GetParam();
  if (golden.p4_m8 > 0) {
    EXPECT_NEAR(outcome(golden.name, golden.layout, 4, 8, kEqual).makespan, golden.p4_m8, 1e-9);
  }
  const Outcome equal = outcome(golden.name, golden.layout, 8, 24, kEqual);
  EXPECT_NEAR(equal.makespan, golden.p8_m24, 1e-9);
  EXPECT_EQ(equal.peaks, golden.peaks);
  EXPECT_NEAR(outcome(golden.name, golden.layout, 8, 24, kSkewed).makespan, golden.p8_m24_skewed, 1e-9);
}

std::vector<double> all(double peak) { return std::vector<double>(8, peak); }

INSTANTIATE_TEST_SUITE_P(
    Table, PublishedBubbles,
    testing::Values(Golden{"gpipe", Layout::kLine, 33, 93, 93, all(24)},
                    Golden{"1f1b", Layout::kLine, 33, 93, 93, {8, 7, 6, 5, 4, 3, 2, 1}},
                    Golden{"interleaved", Layout::kLoop2, 28.5, 82.5, 82.5, {11.5, 10.5, 9.5, 8.5, 7.5, 6.5, 5.5, 4.5}},
                    Golden{"zb-h1", Layout::kLine, 27, 79, 81.8, all(8)},
                    Golden{"zb-h2", Layout::kLine, 27, 79, 79, all(15)}),
    [](const auto& param) {
      std::string name = param.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(WarmUpLatency, GPipeAndBothPoliciesOfDapple) {
  const struct {
    double latency, gpipe, policy_a, policy_b;
  } kRows[] = {{0, 57, 57, 57}, {0.25, 58.5, 64, 58.5}, {0.5, 60, 71, 60}, {1, 63, 85, 63}};
  const PipelineShape shape = ir::chain_shape(4, 16);
  for (const auto& row : kRows) {
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

}  // namespace
}  // namespace rannc::partition
