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
constexpr double kMemoryTolerance = 0.04;
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
  EXPECT_NEAR(peak / static_cast<double>(fullest(plan.plan)), 1, kMemoryTolerance);
}

void expect_agreement(const Prepared& model) {
  for (const Setting& setting : kSettings) expect_agreement(model, setting);
}

TEST(Prediction, AgreesOnBert) {
  const char* loss = "cross_entropy(output=logits)+cross_entropy(output=next_sentence)";
  expect_agreement(prepared(model(zoo::BertConfig(), zoo::write_bert), loss));
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
