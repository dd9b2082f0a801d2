// Tasks that compute the same become one; those that only look so do not.
#include "passes/simplify/cse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/verify.h"
#include "tests/support/short_graph.h"

namespace rannc::passes {
namespace {

using test::operators;
using test::short_graph;
using ::testing::ElementsAre;

/// Whether anything was merged.
bool merge(ir::Graph& graph) {
  PassContext context;
  const bool changed = Cse().run(graph, context).value().changed;
  EXPECT_TRUE(ir::verify(graph).empty());
  EXPECT_EQ(context.remarks.size(), changed ? 1U : 0U);
  return changed;
}

const std::string kX = "input x [batch,4] samples 0\n";

TEST(Cse, MergesTasksOfEqualOperandsAndAttributes) {
  ir::Graph graph =
      short_graph(kX +
                  "a = mean(x) {axes=[-1], keepdim=true}\nb = mean(x) {axes=[-1], keepdim=true}\nc = mean(x) "
                  "{axes=[0], keepdim=true}\nd = sub(x, a)\ne = sub(x, b)\ny = mul(d, e)\noutputs y\n");
  EXPECT_TRUE(merge(graph));
  EXPECT_THAT(operators(graph), ElementsAre("mean", "mean", "sub", "mul"));
  const auto operands = graph.inputs(graph.producer(graph.find("y")));
  EXPECT_EQ(operands[0], operands[1]);
  EXPECT_FALSE(merge(graph)) << "the second time";
}

TEST(Cse, KnowsTheOrderOfOperands) {
  ir::Graph graph =
      short_graph(kX + "input z [batch,4] samples 0\na = sub(x, z)\nb = sub(z, x)\ny = mul(a, b)\noutputs y\n");
  EXPECT_FALSE(merge(graph));
}

TEST(Cse, TakesSmallConstantsOfEqualTypeAndBytesForOne) {
  const std::string end = "a = mul(x, c)\nb = mul(x, d)\ny = add(a, b)\noutputs y\n";
  ir::Graph equal = short_graph(kX + "constant c [] 0.5\nconstant d [] 0.5\n" + end);
  EXPECT_TRUE(merge(equal));
  EXPECT_THAT(operators(equal), ElementsAre("mul", "add"));
  for (const std::string other : {"constant c [] 0.5\nconstant d [] 0.25\n", "constant c [] 0.5\nconstant d [1] 0.5\n",
                                  "constant c [] 0\nconstant d [] -0.0\n", "parameter c [4]\nparameter d [4]\n"}) {
    ir::Graph graph = short_graph(kX + other + end);
    EXPECT_FALSE(merge(graph)) << other;
  }
}

// One number of two types: `pow` takes either.
TEST(Cse, KnowsTypesOfConstants) {
  ir::Graph graph = short_graph(
      kX + "constant c i64 [] 0\nconstant d [] 0\na = pow(x, c)\nb = pow(x, d)\ny = add(a, b)\noutputs y\n");
  EXPECT_FALSE(merge(graph));
}

TEST(Cse, LeavesLargeConstants) {
  const std::string nine = " 1 2 3 4 5 6 7 8 9\n";
  ir::Graph graph = short_graph("input x [batch,9] samples 0\nconstant c [9]" + nine + "constant d [9]" + nine +
                                "a = mul(x, c)\nb = mul(x, d)\ny = add(a, b)\noutputs y\n");
  EXPECT_FALSE(merge(graph));
}

TEST(Cse, KeepsEachDrawToItself) {
  for (const std::string key : {"1", "2"}) {
    ir::Graph graph =
        short_graph(kX +
                    "random p [batch,4] samples 0 = bernoulli drop 0x1p-1 key 1\nrandom q [batch,4] samples "
                    "0 = bernoulli drop 0x1p-1 key " +
                    key + "\na = mul(x, p)\nb = mul(x, q)\ny = add(a, b)\noutputs y\n");
    EXPECT_FALSE(merge(graph)) << key;
  }
}

TEST(Cse, KeepsRunningStatisticsOfEachTask) {
  ir::Graph graph = short_graph(
      "input x [batch,4,2] samples 0\nparameter w [4]\nbuffer m [4]\nbuffer v [4]\nbuffer n [4]\nbuffer u [4]\na,c,d = "
      "batch_norm(x, w, w, m, v) {training=true}\nb,e,f = batch_norm(x, w, w, n, u) {training=true}\ny = add(a, "
      "b)\noutputs "
      "y\n");
  const auto find = [&](std::string_view name) { return graph.find(name); };
  graph.add_statistics({find("c"), find("d"), find("m"), find("v")});
  graph.add_statistics({find("e"), find("f"), find("n"), find("u")});
  ASSERT_TRUE(ir::verify(graph).empty()) << ir::verify(graph).front().str();
  EXPECT_FALSE(merge(graph));
}

TEST(Cse, KeepsResultsThatAreAskedFor) {
  ir::Graph graph = short_graph(kX + "a = relu(x)\nb = relu(x)\nc = relu(x)\ny = add(b, c)\noutputs a b y\n");
  EXPECT_TRUE(merge(graph));
  EXPECT_THAT(operators(graph), ElementsAre("relu", "relu", "add"));
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "a");
  EXPECT_EQ(graph.value(graph.outputs()[1]).name, "b");
}

TEST(Cse, KeepsEachLoss) {
  ir::Graph graph = short_graph(kX + "a = relu(x)\nb = relu(x)\ns = sum(a)\nt = sum(b)\noutputs a\n");
  graph.add_loss({.numerator = graph.find("s")});
  graph.add_loss({.numerator = graph.find("t"), .weight = 2});
  EXPECT_TRUE(merge(graph));
  EXPECT_THAT(operators(graph), ElementsAre("relu", "sum", "sum"));
  ASSERT_EQ(graph.losses().size(), 2U);
  EXPECT_NE(graph.losses()[0].numerator, graph.losses()[1].numerator);
}

TEST(Cse, KnowsEachResultOfATask) {
  ir::Graph graph = short_graph(
      kX +
      "a,b = split(x) {axis=-1, sizes=[1,3]}\nc,d = split(x) {axis=-1, sizes=[1,3]}\ny = mul(b, c)\nz = mul(d, a)\n"
      "outputs y z\n");
  EXPECT_TRUE(merge(graph));
  EXPECT_THAT(operators(graph), ElementsAre("split", "mul", "mul"));
  EXPECT_EQ(graph.inputs(graph.producer(graph.find("z")))[0], graph.find("b"));
  EXPECT_EQ(graph.inputs(graph.producer(graph.find("z")))[1], graph.find("a"));
}

}  // namespace
}  // namespace rannc::passes
