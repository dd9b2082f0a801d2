// Models without a symbol of samples: one micro-batch, one device a stage, the mini-batch of the file.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text/text.h"
#include "ir/verify.h"
#include "partition/cost/analytic.h"
#include "partition/model/finish_plan.h"
#include "partition/model/plan_model.h"
#include "partition/stages/registry.h"
#include "tests/support/planning.h"
#include "tests/support/small_plan.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kSamples = 8;

/// Layers one after another; `batch` is a number or the symbol that counts samples.
ir::Graph layers(const std::string& batch, bool symbol, int count = 6) {
  std::string text = "rannc.graph 1\n";
  if (symbol) text += fmt::format("batch {}\n", batch);
  const std::string type = fmt::format("f32[{},64]{}", batch, symbol ? " samples 0" : "");
  text += fmt::format("input %h0: {}\n", type);
  for (int i = 0; i < count; ++i) text += fmt::format("parameter %w{}: f32[64,64]\n", i);
  for (int i = 0; i < count; ++i) {
    text += fmt::format("#{} %p{}: {} = core.linear(%h{}, %w{}) at \"fixed.onnx\" node \"layer{}\"\n", 2 * i, i, type,
                        i, i, i);
    text += fmt::format("#{} %h{}: {} = core.relu(%p{})\n", 2 * i + 1, i + 1, type, i);
  }
  return ir::parse_graph(text + fmt::format("inputs [%h0]\noutputs [%h{}]\n", count), "t.rir").value();
}

PlanOptions options(uint32_t mini_batch) {
  PlanOptions options;
  options.cluster = preset_cluster("rannc-1x8").value().first(4);
  options.costs = analytic_costs();
  options.mini_batch = mini_batch;
  options.optimizer.name = "adam";
  return options;
}

using Planned = Result<std::variant<PlannedModel, Infeasible>>;

Planned plan(const ir::Graph& graph, const PlanOptions& options) {
  return plan_model(graph, testing::atoms_of(graph), test::with_passes(graph, options));
}

ir::Plan found(const Planned& planned) {
  EXPECT_TRUE(planned.ok()) << planned.diagnostic().str();
  const auto* model = std::get_if<PlannedModel>(&*planned);
  EXPECT_NE(model, nullptr) << std::get<Infeasible>(*planned).reason;
  ir::Plan copy;
  copy.stages = model->plan.stages;
  copy.mini_batch = model->plan.mini_batch;
  copy.micro_batches = model->plan.micro_batches;
  copy.predictions = model->plan.predictions;
  copy.step_ns = model->plan.step_ns;
  EXPECT_TRUE(ir::verify(model->plan).empty());
  return copy;
}

TEST(FixedBatch, EveryPlannerKeepsItWhole) {
  const ir::Graph graph = layers("8", false, 4);  // exhaustive planners take 30 s for two layers more
  for (const std::string& planner : stage_planner_names()) {
    SCOPED_TRACE(planner);
    PlanOptions wanted = options(kSamples);
    wanted.planner = planner;
    const auto outcome = plan(graph, wanted);
    if (outcome.ok() && std::holds_alternative<Infeasible>(*outcome)) continue;  // those that know replicas alone
    const ir::Plan made = found(outcome);
    EXPECT_EQ(made.mini_batch, kSamples);
    EXPECT_EQ(made.micro_batches, std::vector<uint32_t>{kSamples});
    for (const ir::Stage& stage : made.stages) EXPECT_EQ(stage.devices.size(), 1u);
  }
}

TEST(FixedBatch, SeveralStagesCostWhatTheyCostWithASymbol) {
  const ir::Graph fixed = layers("8", false), open = layers("batch", true);
  for (const uint32_t stages : {1U, 2U, 3U}) {
    PlanOptions wanted = options(kSamples);
    wanted.planner = "rannc";
    wanted.constraints.stages = stages;
    const ir::Plan whole = found(plan(fixed, wanted));
    wanted.micro_batches = {1};
    wanted.constraints.replicas.assign(stages, 1);
    const ir::Plan same = found(plan(open, wanted));
    EXPECT_EQ(whole.stages.size(), stages);
    EXPECT_EQ(whole.step_ns, same.step_ns);
    EXPECT_EQ(whole.predictions, same.predictions);
  }
}

void expect_refused(const PlanOptions& wanted, const std::string& part) {
  const auto outcome = plan(layers("8", false), wanted);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.diagnostic().rule, "P15");
  EXPECT_EQ(outcome.diagnostic().where.file, "fixed.onnx");
  EXPECT_NE(outcome.diagnostic().message.find("mini-batch of 8"), std::string::npos) << outcome.diagnostic().str();
  EXPECT_NE(outcome.diagnostic().message.find(part), std::string::npos) << outcome.diagnostic().str();
}

TEST(FixedBatch, WhatSplitsItIsRefused) {
  expect_refused(options(32), "a mini-batch of 32 was requested");
  PlanOptions wanted = options(kSamples);
  wanted.micro_batches = {2, 4};
  expect_refused(wanted, "2 or 4 micro-batches were requested");
  wanted = options(kSamples);
  wanted.constraints.stages = 2;
  wanted.constraints.replicas = {2, 1};
  expect_refused(wanted, "replicas 2,1 were requested");
}

TEST(FixedBatch, ARefusalNamesWhatMixesSamples) {
  PlanOptions wanted = options(kSamples);
  wanted.batching = {BatchKind::kWhole, error({"fixed.onnx", 0, 0, "pairs"}, "it multiplies samples")};
  const auto refusal = [&](const std::string& batch, bool symbol) {
    const auto outcome = plan(layers(batch, symbol), wanted);
    return outcome.ok() ? std::string() : outcome.diagnostic().str();
  };
  EXPECT_EQ(refusal("8", false), "");
  wanted.micro_batches = {2, 4};
  EXPECT_THAT(refusal("8", false),
              ::testing::StartsWith("fixed.onnx: 'pairs': error: it multiplies samples, so its mini-batches cannot "
                                    "be divided, but 2 or 4 micro-batches are requested [P15]"));
  EXPECT_EQ(refusal("batch", true), "") << "a symbol counts the samples of this graph";
  wanted.micro_batches = {};
  wanted.constraints.stages = 2;
  wanted.constraints.replicas = {2, 1};
  EXPECT_THAT(refusal("8", false), ::testing::HasSubstr("cannot be divided, but 2, 1 replicas are requested [P15]"));
}

TEST(FixedBatch, OneMicroBatchAmongOthersMayBeChosen) {
  PlanOptions wanted = options(kSamples);
  wanted.micro_batches = {1, 4};
  EXPECT_EQ(found(plan(layers("8", false), wanted)).micro_batches.size(), 1u);
}

TEST(FixedBatch, AFinishedPlanIsNotRescheduledForMore) {
  const auto outcome = plan(layers("8", false), options(kSamples));
  ASSERT_TRUE(outcome.ok());
  const ir::Plan& made = std::get<PlannedModel>(*outcome).plan;
  EXPECT_TRUE(reschedule(made, {1, "gpipe", {}}).ok());
  const auto split = reschedule(made, {3, "1f1b", {}});
  ASSERT_FALSE(split.ok());
  EXPECT_EQ(split.diagnostic().rule, "P15");
}

}  // namespace
}  // namespace rannc::partition
