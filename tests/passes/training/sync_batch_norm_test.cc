// Batch normalisations of training are marked as over replicas, and nothing else is.
#include "passes/training/sync_batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/state/statistics.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/pipeline.h"

namespace rannc::passes {
namespace {

using ::testing::HasSubstr;

std::string model(const std::string& training) {
  return R"(rannc.graph 1
batch batch
input %x: f32[batch,3] samples 0
parameter %s: f32[3]
buffer %rm: f32[3]
buffer %rv: f32[3]
constant %m: f32[3]
#0 %y: f32[batch,3] samples 0, %mean: f32[3], %variance: f32[3] = core.batch_norm(%x, %s, %s, %rm, %rv) {training = )" +
         training + R"(}
#1 %z: f32[batch,3] samples 0 = core.batch_norm(%y, %s, %s, %m, %m) {training = )" +
         training + R"(}
#2 %w: f32[batch,3] samples 0 = core.batch_norm(%z, %s, %s, %rm, %rv)
inputs [%x]
outputs [%w]
)" + (training == "true" ? "statistics %rm, %rv = %mean, %variance\n" : "");
}

ir::Graph parsed(const std::string& text) { return ir::parse_graph(text, "t.rir").value(); }

TEST(SyncBatchNorm, MarksThoseThatTrain) {
  ir::Graph graph = parsed(model("true"));
  PassContext context;
  EXPECT_TRUE(SyncBatchNorm().run(graph, context).value().changed);
  EXPECT_EQ(ir::synchronised(graph, TaskId(0)), true);
  EXPECT_EQ(ir::synchronised(graph, TaskId(1)), true) << "also without running statistics";
  EXPECT_EQ(ir::synchronised(graph, TaskId(2)), std::nullopt) << "it normalises by running statistics";
  EXPECT_TRUE(context.warnings.empty());
  EXPECT_TRUE(ir::verify(graph).empty()) << ir::verify(graph)[0].str();
  EXPECT_FALSE(SyncBatchNorm().run(graph, context).value().changed) << "twice is once";
  const std::string text = ir::print(graph);
  EXPECT_THAT(text, HasSubstr("synchronised = true"));
  EXPECT_EQ(ir::print(parsed(text)), text);
}

TEST(SyncBatchNorm, WarnsWhereNothingTrains) {
  ir::Graph graph = parsed(model("false"));
  const std::string before = ir::print(graph);
  PassContext context;
  EXPECT_FALSE(SyncBatchNorm().run(graph, context).value().changed);
  EXPECT_EQ(ir::print(graph), before);
  ASSERT_EQ(context.warnings.size(), 1U);
  EXPECT_THAT(context.warnings[0].message, HasSubstr("no batch normalisation is in training mode"));
}

// Replicas may take different branches: they would wait for each other for ever.
TEST(SyncBatchNorm, RefusesOneInABranch) {
  ir::Graph graph = parsed(R"(rannc.graph 1
batch batch
input %x: f32[batch,3] samples 0
input %c: bool[]
parameter %s: f32[3]
body @b0
  input %a: f32[batch,3] samples 0
  input %as: f32[3]
  #0 %b: f32[batch,3] samples 0 = core.batch_norm(%a, %as, %as, %as, %as) {training = true} at "m.onnx" node "inner"
  inputs [%a, %as]
  outputs [%b]
end @b0
body @b1
  input %a: f32[batch,3] samples 0
  input %as: f32[3]
  #0 %b: f32[batch,3] samples 0 = core.relu(%a)
  inputs [%a, %as]
  outputs [%b]
end @b1
#0 %y: f32[batch,3] samples 0 = core.if(%c, %x, %s) {else = @b1, then = @b0}
inputs [%x, %c]
outputs [%y]
)");
  PassContext context;
  const auto outcome = SyncBatchNorm().run(graph, context);
  ASSERT_FALSE(outcome.ok());
  for (const char* part : {"m.onnx", "inner", "core.batch_norm", "`then` of task #0"}) {
    EXPECT_THAT(outcome.diagnostic().str(), HasSubstr(part));
  }
}

TEST(SyncBatchNorm, IsPartOfThePipelineOnDemand) {
  const auto marked = [](bool requested) {
    ir::Graph graph = parsed(R"(rannc.graph 1
batch batch
input %x: f32[batch,3] samples 0
parameter %s: f32[3]
buffer %rm: f32[3]
buffer %rv: f32[3]
#0 %y: f32[batch,3] samples 0, %m: f32[3], %v: f32[3] = core.batch_norm(%x, %s, %s, %rm, %rv) {training = true}
inputs [%x]
outputs [%y]
statistics %rm, %rv = %m, %v
)");
    PassContext context;
    PipelineOptions options;
    options.sync_batch_norm = requested;
    const RunReport report = standard_pipeline(options).run(graph, context);
    EXPECT_TRUE(report.ok()) << report.failure->str();
    return ir::synchronised(graph, TaskId(0)).value();
  };
  EXPECT_TRUE(marked(true));
  EXPECT_FALSE(marked(false));
  EXPECT_TRUE(make_pass("sync-batch-norm").ok());
}

}  // namespace
}  // namespace rannc::passes
