// The report names the device that bounds a run, and what a step would take without what slows it.
#include "tools/run/run_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "partition/schedule/simulate.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::tools {
namespace {

using ir::ActionKind;
using ::testing::HasSubstr;

/// Records of steps 0 and 1: every action of a device follows the one before it; forward passes take `forward_ns` of
/// their stage, backward passes twice that, the optimizer 1,000, all else nothing. Step 0 is ten times as slow.
std::vector<runtime::ActionRecord> records_of(const ir::Plan& plan, const std::vector<int64_t>& forward_ns) {
  std::vector<runtime::ActionRecord> records;
  for (const uint64_t step : {0, 1}) {
    for (size_t device = 0; device < plan.schedule.rows.size(); ++device) {
      int64_t now = step == 0 ? 0 : 10'000'000;
      for (const ir::Action& action : plan.schedule.rows[device]) {
        int64_t lasts = 0;
        if (action.kind == ActionKind::kForward) lasts = forward_ns[action.stage.index()];
        if (action.kind == ActionKind::kBackward) lasts = 2 * forward_ns[action.stage.index()];
        if (action.kind == ActionKind::kStep) lasts = 1'000;
        if (step == 0) lasts *= 10;
        // A part of every action is waiting, which is no work.
        records.push_back({step, DeviceId::from(device), action, now, now + lasts + 500, 500, 0});
        now += lasts + 500;
      }
    }
  }
  return records;
}

ir::Plan two_stages() {
  return rannc::testing::build_plan(rannc::testing::skip_and_tie(ir::DType::kF32),
                                    {.cuts = {4}, .micro_batches = {2, 2, 2, 2}});
}

double step_with(const RunAdvice& advice, const std::string& part) {
  for (const Remedy& remedy : advice.remedies) {
    if (remedy.what.find(part) != std::string::npos) return remedy.step_ns;
  }
  ADD_FAILURE() << "no remedy speaks of " << part;
  return 0;
}

TEST(RunAdvice, NamesTheBusiestDeviceAndWhatItCosts) {
  const ir::Plan plan = two_stages();
  const auto advice = run_advice(plan, records_of(plan, {10'000, 30'000}), 722'000);
  ASSERT_TRUE(advice.ok()) << advice.diagnostic().str();
  // Four micro-batches of 30 + 60 us and the optimizer's 1 us on device 1; device 0 has 121 us: 1.50 times the mean.
  EXPECT_THAT(advice->bottleneck, HasSubstr("Device 1"));
  EXPECT_THAT(advice->bottleneck, HasSubstr("stage 1"));
  EXPECT_THAT(advice->bottleneck, HasSubstr("361"));
  EXPECT_THAT(advice->bottleneck, HasSubstr("(50 %), 1.50 times"));
  // 10 us until device 1 can begin, its 360 us, then the last gradient through stage 0: 20 us, its step 1 us.
  EXPECT_DOUBLE_EQ(advice->step_ns, 10'000 + 360'000 + 20'000 + 1'000);
  // Both at 20 + 40 us: (4 + 1) of each pass over two stages, and the step.
  EXPECT_DOUBLE_EQ(step_with(*advice, "equal work"), 5 * 60'000 + 1'000);
  EXPECT_DOUBLE_EQ(step_with(*advice, "no bubble"), (121'000 + 361'000) / 2.0);
  EXPECT_DOUBLE_EQ(step_with(*advice, "optimizer"), 390'000);
  for (size_t i = 1; i < advice->remedies.size(); ++i)
    EXPECT_LE(advice->remedies[i - 1].step_ns, advice->remedies[i].step_ns) << "the best first";
}

// Unequal times of micro-batches, replicas and steps, of which one is delayed: no remedy takes longer than the step.
TEST(RunAdvice, NoRemedyTakesLongerThanTheStep) {
  int remedies = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const ir::Plan plan = rannc::testing::build_plan(
        rannc::testing::skip_and_tie(ir::DType::kF32),
        {.cuts = {4}, .replicas = {1 + static_cast<uint32_t>(seed % 2), 1}, .micro_batches = {2, 2, 2, 2}});
    const ir::PipelineShape shape = ir::pipeline_shape(plan);
    std::vector<runtime::ActionRecord> records;
    std::vector<double> steps;
    const uint64_t slow = random() % 5;
    for (uint64_t step = 0; step < 5; ++step) {
      partition::ScheduleCosts costs;
      for (uint32_t i = 0; i < 4; ++i) costs.size_class.push_back(i);
      const auto time = [&](double least) {
        return least * static_cast<double>(1000 + random() % 300) * (step == slow ? 5 : 1);
      };
      for (size_t s = 0; s < 2; ++s) {
        const double work = 1 + static_cast<double>((seed + s) % 3);
        costs.step.push_back(time(work));
        auto& times = costs.compute.emplace_back();
        for (uint32_t i = 0; i < 4; ++i) times.push_back({.forward = time(work), .input_gradient = time(2 * work)});
      }
      const auto timeline = partition::simulate(shape, plan.schedule, costs).value();
      steps.push_back(timeline.makespan);
      for (size_t device = 0; device < plan.schedule.rows.size(); ++device) {
        for (size_t i = 0; i < plan.schedule.rows[device].size(); ++i) {
          const partition::Span& span = timeline.spans[device][i];
          records.push_back({step, DeviceId::from(device), plan.schedule.rows[device][i],
                             static_cast<int64_t>(span.start), static_cast<int64_t>(span.end), 0, 0});
        }
      }
    }
    std::nth_element(steps.begin(), steps.begin() + 2, steps.end());
    const auto advice = run_advice(plan, records, steps[2]);
    ASSERT_TRUE(advice.ok()) << advice.diagnostic().str();
    for (const Remedy& remedy : advice->remedies) EXPECT_LE(remedy.step_ns, steps[2]) << remedy.what;
    remedies += static_cast<int>(advice->remedies.size());
  }
  EXPECT_GE(remedies, 300);
}

TEST(RunAdvice, OfNoRecordsThereIsNone) {
  const auto advice = run_advice(two_stages(), {}, 0);
  ASSERT_TRUE(advice.ok());
  EXPECT_EQ(advice->bottleneck, "");
}

}  // namespace
}  // namespace rannc::tools
