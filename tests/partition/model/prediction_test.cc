// The stage planners' judge and the finished plan's simulation tell the same time and memory.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/zoo/amoebanet.h"
#include "frontend/zoo/bert.h"
#include "frontend/zoo/resnet.h"
#include "frontend/zoo/unet.h"
#include "partition/stages/judge.h"
#include "tests/partition/model/planned_models.h"

namespace rannc::test {
namespace {

namespace zoo = frontend::zoo;

// The judge takes all messages between two stages as one and a replicated stage as one device, and counts buffers of
// messages as always there; the finished plan sends every value on its own. At the papers' sizes, where work outweighs
// messages, no more than this is left.
constexpr double kTimeTolerance = 0.03;
// Of memory the judge adds up blocks: the largest temporary of one, where the finished plan follows the gradients that
// pass from block to block, which residual and skip connections hold for long.
constexpr double kMemoryTolerance = 0.08;
// Between nodes the judge holds the port of the sending stage as long as that of its node, which several devices share:
// what else the stage sends waits longer than it will, and the judge is by so much the slower one.
constexpr double kNodePortTolerance = 0.2;

using partition::RecomputeRule;

struct Setting {
  const char* cluster;
  uint32_t mini_batch;
  uint32_t stages;
  const char* schedule;
  RecomputeRule recompute;
};

const Setting kSettings[] = {
    {"rannc-1x8", 64, 8, "1f1b", RecomputeRule::kNever},  {"rannc-1x8", 64, 8, "gpipe", RecomputeRule::kAlways},
    {"rannc-1x8", 64, 4, "1f1b", RecomputeRule::kAlways}, {"rannc-1x8", 64, 3, "dapple-b", RecomputeRule::kNever},
    {"rannc-1x8", 64, 1, "1f1b", RecomputeRule::kNever},  {"rannc-4x8", 256, 4, "1f1b", RecomputeRule::kNever},
    {"rannc-4x8", 256, 1, "1f1b", RecomputeRule::kNever}, {"dapple-b", 128, 3, "1f1b", RecomputeRule::kNever},
    {"rannc-1x8", 64, 8, "zb-h1", RecomputeRule::kNever}, {"rannc-1x8", 64, 4, "zb-h2", RecomputeRule::kNever},
};

// Whether stages may send to other nodes.
bool may_cross_nodes(const ir::Plan& plan, const partition::Cluster& cluster) {
  return cluster.nodes.size() > 1 && plan.stages.size() > 1;
}

std::string brief(const Setting& setting) {
  return fmt::format("{} stages on {} by {}{}", setting.stages, setting.cluster, setting.schedule,
                     setting.recompute == RecomputeRule::kAlways ? ", recompute" : "");
}

void expect_agreement(const Prepared& model, const Setting& setting) {
  SCOPED_TRACE(brief(setting));
  auto options = options_for(setting.cluster, setting.mini_batch);
  options.constraints.stages = setting.stages;
  options.schedule = setting.schedule;
  options.recompute = setting.recompute;
  const auto plan = planned(model, options);
  partition::PlanJudge judge(plan.problem);
  partition::StagePlan judged = plan.stages;
  judged.schedule = setting.schedule;
  judged.warm_up.clear();
  std::string why;
  const auto step = judge.judge(judged, &why);
  ASSERT_TRUE(step) << why;
  const double ratio = *step / static_cast<double>(plan.plan.step_ns);
  EXPECT_GE(ratio, 1 - kTimeTolerance);
  EXPECT_LE(ratio, 1 + (may_cross_nodes(plan.plan, options.cluster) ? kNodePortTolerance : kTimeTolerance));
  double peak = 0;
  for (const auto& stage : judged.stages) peak = std::max(peak, stage.peak_bytes);
  // How much waits for weight gradients is followed by the finished plan alone, action by action.
  if (std::string(setting.schedule).starts_with("zb-")) return;
  EXPECT_NEAR(peak / static_cast<double>(fullest(plan.plan)), 1, kMemoryTolerance);
}

void expect_agreement(const Prepared& model) {
  for (const Setting& setting : kSettings) expect_agreement(model, setting);
}

TEST(Prediction, AgreesOnBert) {
  const char* loss = "cross_entropy(output=logits)+cross_entropy(output=next_sentence)";
  expect_agreement(prepared(model(zoo::BertConfig(), zoo::write_bert), loss));
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
