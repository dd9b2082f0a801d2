// Tasks that no output needs go before anything judges them; what makes running statistics stays.
#include "passes/simplify/drop_unread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/verify.h"
#include "passes/pipeline.h"
#include "tests/support/short_graph.h"

namespace rannc::passes {
namespace {

using test::operators;
using test::short_graph;
using ::testing::ElementsAre;

const std::string kX = "input x [batch,4] samples 0\nparameter w [4]\n";

TEST(DropUnread, DropsWhatReachesNoOutput) {
  ir::Graph graph = short_graph(kX + "y = mul(x, w)\na = exp(x)\nb = sub(a, w)\noutputs y\n");
  PassContext context;
  EXPECT_TRUE(DropUnread().run(graph, context).value().changed);
  EXPECT_TRUE(ir::verify(graph).empty());
  EXPECT_THAT(operators(graph), ElementsAre("mul"));
  ASSERT_EQ(context.remarks.size(), 1U);
  EXPECT_EQ(context.remarks[0].message, "dropped 2 tasks that no output needs");
  EXPECT_FALSE(DropUnread().run(graph, context).value().changed) << "the second time";
}

TEST(DropUnread, KeepsStoredTensorsThatOnlyTheseRead) {
  ir::Graph graph = short_graph(kX + "y = exp(x)\nb = sub(x, w)\noutputs y\n");
  PassContext context;
  EXPECT_TRUE(DropUnread().run(graph, context).value().changed);
  EXPECT_TRUE(graph.find("w").valid()) << "patterns and files of weights may name it";
}

// A mean over the samples is refused only where something reads it.
TEST(DropUnread, StandsBeforeWhatJudgesTasks) {
  const std::string mixed = kX + "y = mul(x, w)\nm = mean(x) {axes=[0], keepdim=true}\n";
  const auto run = [](const std::string& text) {
    ir::Graph graph = short_graph(text);
    PassContext context;
    return standard_pipeline({.losses = {{.kind = LossSpec::Kind::kMse, .output = "y"}}}).run(graph, context).ok();
  };
  EXPECT_TRUE(run(mixed + "outputs y\n"));
  EXPECT_FALSE(run(mixed + "z = sub(y, m)\noutputs y z\n"));
}

}  // namespace
}  // namespace rannc::passes
