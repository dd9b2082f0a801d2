// The stage planners' judge and the finished plan's simulation tell the same time and memory.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/zoo/amoebanet.h"
#include "frontend/zoo/bert.h"
#include "frontend/zoo/resnet.h"
#include "frontend/zoo/unet.h"
#include "partition/model/finish_plan.h"
#include "partition/stages/judge/judge.h"
#include "tests/partition/model/planned_models.h"
#include "tests/partition/stages/support/judging.h"

namespace rannc::test {
namespace {

namespace zoo = frontend::zoo;

// By devices both simulate the same messages on the same ports; what is left are constants that several blocks of a
// stage clone, and whole nanoseconds.
constexpr double kTimeTolerance = 0.005;
// BERT's word embedding is tied to its output: a problem of blocks counts it in both, and does not know its reduction.
constexpr double kTiedTolerance = 0.02;
// Where replicas sum gradients beside the backward pass, the judge knows when those of a block are final, the finished
// plan when those of a bucket are.
constexpr double kSumTolerance = 0.03;
// The judge takes a stage with its replicas for one device; where replicas of a node share its port, their messages do
// not all come as late as the last.
constexpr double kStageTolerance = 0.2;
// Of memory the judge adds up blocks: what each needs beside all that the blocks up to it save, where the finished plan
// follows the stage's functions, which save part of that later. An I or a W alone can need more than the B that the
// judge knows: kernels of weight gradients allocate beside all that waits.
constexpr double kMemoryAbove = 0.11, kMemoryBelow = 0.085;

using partition::RecomputeRule;

struct Setting {
  const char* cluster;
  uint32_t mini_batch;
  uint32_t stages;
  const char* schedule;
  RecomputeRule recompute;
  uint32_t stages_per_device = 1;
};

const Setting kSettings[] = {
    {"rannc-1x8", 64, 8, "1f1b", RecomputeRule::kNever},
    {"rannc-1x8", 64, 8, "gpipe", RecomputeRule::kAlways},
    {"rannc-1x8", 64, 4, "1f1b", RecomputeRule::kAlways},
    {"rannc-1x8", 64, 3, "dapple-b", RecomputeRule::kNever},
    {"rannc-1x8", 64, 1, "1f1b", RecomputeRule::kNever},
    {"rannc-4x8", 256, 4, "1f1b", RecomputeRule::kNever},
    {"rannc-4x8", 256, 1, "1f1b", RecomputeRule::kNever},
    {"dapple-b", 128, 3, "1f1b", RecomputeRule::kNever},
    {"rannc-1x8", 64, 8, "zb-h1", RecomputeRule::kNever},
    {"rannc-1x8", 64, 4, "zb-h2", RecomputeRule::kNever},
    {"rannc-1x8", 64, 8, "zb-h1", RecomputeRule::kAlways},
    {"rannc-1x8", 64, 8, "zb-v", RecomputeRule::kNever, 2},
    {"rannc-1x8", 64, 8, "zb-v", RecomputeRule::kAlways, 2},
    {"rannc-1x8", 64, 8, "interleaved", RecomputeRule::kAlways, 2},
};

std::string brief(const Setting& setting) {
  return fmt::format("{} stages on {} by {}{}", setting.stages, setting.cluster, setting.schedule,
                     setting.recompute == RecomputeRule::kAlways ? ", recompute" : "");
}

void expect_agreement(const Prepared& model, const Setting& setting, double tolerance) {
  SCOPED_TRACE(brief(setting));
  auto options = options_for(setting.cluster, setting.mini_batch);
  options.constraints.stages = setting.stages;
  options.schedule = setting.schedule;
  if (setting.stages_per_device > 1) {
    options.planner = "auto";
    options.constraints.stages_per_device = setting.stages_per_device;
  }
  options.recompute = setting.recompute;
  auto plan = planned(model, options);
  for (ir::StageTime& time : plan.plan.stage_times) time.rebuild_ns = 0;  // the judge prices R as a whole forward pass
  ASSERT_TRUE(partition::predict(plan.plan, options.cluster).ok());
  partition::PlanJudge judge(plan.problem);
  partition::StagePlan judged = plan.stages;
  judged.schedule = setting.schedule;
  judged.warm_up.clear();
  std::string why;
  const auto step = partition::testing::judge(judge, judged, partition::kInfinity, &why);
  ASSERT_TRUE(step) << why;
  const auto predicted = static_cast<double>(plan.plan.step_ns);
  EXPECT_NEAR(*step / predicted, 1, kStageTolerance);
  const auto finished = partition::testing::take(judge.judge_by_device(judged), judged, &why);
  ASSERT_TRUE(finished) << why;
  const bool sums = std::any_of(plan.plan.stages.begin(), plan.plan.stages.end(),
                                [](const ir::Stage& stage) { return !stage.buckets.empty(); });
  EXPECT_NEAR(*finished / predicted, 1, sums ? kSumTolerance : tolerance);
  double peak = 0;
  for (const auto& stage : judged.stages) peak = std::max(peak, stage.peak_bytes);
  const double ratio = peak / static_cast<double>(fullest(plan.plan));
  EXPECT_LT(ratio, 1 + kMemoryAbove);
  EXPECT_GT(ratio, 1 - kMemoryBelow);
}

void expect_agreement(const Prepared& model, double tolerance = kTimeTolerance) {
  for (const Setting& setting : kSettings) expect_agreement(model, setting, tolerance);
}

TEST(Prediction, AgreesOnBert) {
  const char* loss = "cross_entropy(output=logits)+cross_entropy(output=next_sentence)";
  expect_agreement(prepared(model(zoo::BertConfig(), zoo::write_bert), loss), kTiedTolerance);
}

// What is put off is priced apart: I + W is B, W is what the tasks' weight gradients take of it, and it fills bubbles.
TEST(Prediction, ZeroBubbleSchedulesPutWeightGradientsOff) {
  const Prepared model = small_bert();
  auto options = options_for("flat:4", 8);
  options.micro_batches = {8};
  options.constraints.stages = 4;
  options.schedule = "1f1b";
  const auto plain = planned(model, options);
  options.schedule = "zb-h1";
  const auto put_off = planned(model, options);
  const auto costs = partition::compute_costs(put_off.plan);
  for (size_t s = 0; s < 4; ++s) {
    const ir::StageTime& time = put_off.plan.stage_times[s];
    ASSERT_EQ(time.stage.index(), s);
    double weight = 0;
    const auto& problem = put_off.problem.times[0];
    const auto& stage = put_off.stages.stages[s];
    for (uint32_t b = stage.first; b < stage.end; ++b) weight += problem.weight_gradient[0][b];
    EXPECT_NEAR(static_cast<double>(time.weight_ns), weight, 2);
    EXPECT_GT(time.weight_ns, time.backward_ns / 4) << "most work of a transformer is in products with weights";
    EXPECT_LT(time.weight_ns, time.backward_ns);
    EXPECT_EQ(costs.compute[s][0].weight_gradient, static_cast<double>(time.weight_ns));
    EXPECT_EQ(costs.compute[s][0].input_gradient, static_cast<double>(time.backward_ns - time.weight_ns));
  }
  EXPECT_LT(put_off.timeline.bubble, 0.8 * plain.timeline.bubble);
  EXPECT_LT(put_off.plan.step_ns, plain.plan.step_ns);
}

TEST(Prediction, AgreesOnResNet) {
  zoo::ResNetConfig config;
  config.width = 4;
  expect_agreement(prepared(model(config, zoo::write_resnet), "cross_entropy(output=logits)"));
}

TEST(Prediction, AgreesOnUNet) {
  expect_agreement(prepared(model(zoo::UNetConfig(), zoo::write_unet), "mse(output=mask)"));
}

TEST(Prediction, AgreesOnAmoebaNet) {
  expect_agreement(prepared(model(zoo::AmoebaNetConfig(), zoo::write_amoebanet), "cross_entropy(output=logits)"));
}

}  // namespace
}  // namespace rannc::test
