// The papers' models at their sizes: parameters are recovered, and there is a plan for the papers' clusters.
#include "frontend/zoo/amoebanet.h"
#include "frontend/zoo/bert.h"
#include "frontend/zoo/resnet.h"
#include "frontend/zoo/unet.h"
#include "frontend/zoo/xlnet.h"
#include "ir/op/op.h"
#include "partition/stages/search/auto.h"
#include "tests/partition/model/planned_models.h"
#include "tests/support/tier.h"

namespace rannc::test {
namespace {

namespace zoo = frontend::zoo;

const char* const kBertLoss = "cross_entropy(output=logits)+cross_entropy(output=next_sentence)";

zoo::BertConfig bert(int64_t layers, int64_t width) {
  zoo::BertConfig config;
  config.layers = layers;
  config.width = width;
  return config;
}

zoo::BertConfig unfused_bert(int64_t layers, int64_t width) {
  zoo::BertConfig config = bert(layers, width);
  config.unfused = true;
  config.dropout = 0.1F;
  return config;
}

Build resnet(int64_t depth) {
  zoo::ResNetConfig config;
  config.depth = depth;
  config.width = 8;
  return model(config, zoo::write_resnet);
}

void expect_within_memory(const partition::PlannedModel& planned) {
  ASSERT_FALSE(planned.plan.devices.empty());
  EXPECT_LE(fullest(planned.plan), planned.plan.devices.front().memory_bytes);
  EXPECT_GT(planned.plan.step_ns, 0);
  EXPECT_LE(planned.plan.lower_bound_ns, planned.plan.step_ns);
}

// What is trained after the passes is what the zoo counts: neither statistics nor scalars nor masks are among it.
TEST(ZooPlans, ParametersAreRecovered) {
  zoo::UNetConfig unet;
  zoo::AmoebaNetConfig amoebanet;
  zoo::XlnetConfig xlnet;
  xlnet.layers = 2;
  xlnet.width = 128;
  const std::pair<Build, const char*> models[] = {
      {model(bert(2, 128), zoo::write_bert), kBertLoss},
      {model(unfused_bert(2, 128), zoo::write_bert), kBertLoss},
      {resnet(50), "cross_entropy(output=logits)"},
      {model(unet, zoo::write_unet), "mse(output=mask)"},
      {model(amoebanet, zoo::write_amoebanet), "cross_entropy(output=logits)"},
      {model(xlnet, zoo::write_xlnet), "cross_entropy(output=start)+cross_entropy(output=end)"},
  };
  for (const auto& [build, loss] : models)
    EXPECT_EQ(prepared(build, loss).elements(ir::ValueKind::kParameter), parameters_of(build));
}

// A mean and a variance per channel that has a scale and a shift.
TEST(ZooPlans, RunningStatisticsAreBuffers) {
  const Prepared model = prepared(resnet(50), "cross_entropy(output=logits)");
  uint64_t scales = 0;
  for (const TaskId task : model.graph.tasks()) {
    if (model.graph.op(task).name == "core.batch_norm")
      scales +=
          static_cast<uint64_t>(ir::element_count(*model.graph.type(model.graph.inputs(task)[1]).shape).constant());
  }
  EXPECT_GT(scales, 0U);
  EXPECT_EQ(model.elements(ir::ValueKind::kBuffer), 2 * scales);
}

// Written out, an encoder layer has 54 operators instead of 30, and three dropouts.
TEST(ZooPlans, UnfusedLayersHaveTheirOperators) {
  const auto atoms = [](const zoo::BertConfig& config) {
    return static_cast<int64_t>(prepared(model(config, zoo::write_bert), kBertLoss).atoms.tasks.size());
  };
  EXPECT_EQ(atoms(bert(3, 64)) - atoms(bert(2, 64)), 30);
  EXPECT_EQ(atoms(unfused_bert(3, 64)) - atoms(unfused_bert(2, 64)), 57);
}

TEST(ZooPlans, LargestBertOnFourNodes) {
  const Prepared model = prepared(test::model(bert(256, 2048), zoo::write_bert), kBertLoss);
  EXPECT_EQ(model.elements(ir::ValueKind::kParameter) / 100'000'000, 129U);
  const auto plan = planned(model, options_for("rannc-4x8", 256));
  expect_within_memory(plan);
  EXPECT_EQ(plan.blocks.partition.count, 32U);
  EXPECT_TRUE(plan.remarks.empty());
}

TEST(ZooPlans, UnfusedBertOnFourNodes) {
  const Prepared model = prepared(test::model(unfused_bert(256, 2048), zoo::write_bert), kBertLoss);
  EXPECT_GT(model.atoms.tasks.size(), 14'000U);
  expect_within_memory(planned(model, options_for("rannc-4x8", 256)));
}

/// Plans the model on one and four nodes: within memory, above the bound, with 32 blocks.
void expect_planned(const Prepared& model, const ir::PlanOptimizer& optimizer, uint32_t per_node) {
  for (const auto& [cluster, nodes] : {std::pair("rannc-1x8", 1u), {"rannc-4x8", 4u}}) {
    SCOPED_TRACE(cluster);
    auto options = options_for(cluster, nodes * per_node);
    options.optimizer = optimizer;
    const auto plan = planned(model, options);
    expect_within_memory(plan);
    EXPECT_EQ(plan.blocks.partition.count, 32U);
    if (model.atoms.tasks.size() > 1000) continue;
    options.blocks = UINT32_MAX;  // every atom is a block
    const auto finest = planned(model, options);
    expect_within_memory(finest);
    EXPECT_EQ(finest.blocks.partition.count, model.atoms.tasks.size());
    EXPECT_LE(finest.stages.objective, plan.stages.objective * (1 + 1e-9)) << "more cuts are allowed";
  }
}

// RaNNC IV.B: every BERT and ResNet of the paper on one and four nodes, small ones without blocks too.
TEST(ZooPlans, EveryModelOfRanncsExperiments) {
  for (const int64_t width : {1024, 1536, 2048}) {
    for (const int64_t layers : {24, 48, 96, 144, 192, 256}) {
      if (!rannc::testing::tests_everything() && !(width == 1024 && layers == 24) && !(width == 1536 && layers == 192))
        continue;
      SCOPED_TRACE(std::to_string(layers) + " layers of " + std::to_string(width));
      const Prepared model = prepared(test::model(bert(layers, width), zoo::write_bert), kBertLoss);
      expect_planned(model, {"adam", 0, false, {}}, 64);
    }
  }
  for (const int64_t depth : {50, 101, 152}) {
    if (!rannc::testing::tests_everything() && depth != 50) continue;
    SCOPED_TRACE("ResNet" + std::to_string(depth) + "x8");
    expect_planned(prepared(resnet(depth), "cross_entropy(output=logits)"), {"sgd", 0.9, false, {}}, 128);
  }
}

// Cuts between the places that 32 blocks offer balance the stages better; the finer plan is judged like any other.
TEST(ZooPlans, CutsLieBetweenCoarseBlocks) {
  const Prepared model = prepared(test::model(bert(48, 2048), zoo::write_bert), kBertLoss);
  auto options = options_for("rannc-1x8", 64);
  const auto coarse = planned(model, options);
  ASSERT_EQ(coarse.problem.blocks, 32U);
  options.search.schedules = partition::default_schedules(coarse.problem);
  std::erase(options.search.schedules, "found");  // whose rows fill what uneven stages leave idle
  const auto over_coarse = partition::auto_planner(options.search)->plan(coarse.problem);
  ASSERT_TRUE(over_coarse.ok());
  options.planner = "auto";
  const auto fine = planned(model, options);
  expect_within_memory(fine);
  EXPECT_GT(fine.problem.blocks, 32U);
  EXPECT_EQ(fine.problem.blocks, fine.blocks.partition.count);
  EXPECT_LT(fine.stages.objective, 0.995 * std::get<partition::StagePlan>(*over_coarse).objective);
  EXPECT_LE(fine.stages.lower_bound, fine.stages.objective);
}

TEST(ZooPlans, WidestResNetOnOneNode) {
  const Prepared model = prepared(resnet(152), "cross_entropy(output=logits)");
  EXPECT_EQ((model.elements(ir::ValueKind::kParameter) + 50'000'000) / 100'000'000, 37U);
  auto options = options_for("rannc-1x8", 128);
  options.optimizer = {"sgd", 0.9, false, {}};
  expect_within_memory(planned(model, options));
}

// torchgpipe's largest, with its 8 bytes a parameter (section 4.2.2), batch 32.
TEST(ZooPlans, LargestUNetOnOneNode) {
  zoo::UNetConfig config;
  config.blocks = 48;
  config.channels = 160;
  const Prepared model = prepared(test::model(config, zoo::write_unet), "mse(output=mask)");
  EXPECT_EQ(model.elements(ir::ValueKind::kParameter) / 10'000'000, 1582U);
  auto options = options_for("rannc-1x8", 32);
  options.optimizer.name = "sgd";
  expect_within_memory(planned(model, options));
}

TEST(ZooPlans, LargestAmoebaNetOnOneNode) {
  zoo::AmoebaNetConfig config;
  config.layers = 36;
  config.filters = 544;
  const Prepared model = prepared(test::model(config, zoo::write_amoebanet), "cross_entropy(output=logits)");
  auto options = options_for("rannc-1x8", 128);
  options.optimizer.name = "sgd";
  expect_within_memory(planned(model, options));
}

}  // namespace
}  // namespace rannc::test
