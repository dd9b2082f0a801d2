// What is the same for each sample is made for one, by a library of tensors or without.
#include "passes/batch/hoist_uniform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/constant.h"
#include "ir/verify.h"
#include "tests/support/short_graph.h"

namespace rannc::passes {
namespace {

using test::operators;
using test::short_graph;
using ::testing::ElementsAre;

/// Whether anything was hoisted; no float is computed.
bool hoist(ir::Graph& graph) {
  PassContext context;
  const bool changed = HoistUniform().run(graph, context).value().changed;
  const auto wrong = ir::verify(graph);
  EXPECT_TRUE(wrong.empty()) << wrong.front().str();
  EXPECT_EQ(context.remarks.size(), changed ? 1U : 0U);
  return changed;
}

std::vector<int64_t> integers(const ir::Graph& graph, ValueId value) {
  const ir::Graph::Value& found = graph.value(value);
  EXPECT_EQ(found.kind, ir::ValueKind::kConstant);
  return ir::decode_integers(found.type, found.data, 100).value();
}

// As torch.export writes the causal mask of three places: positions of each sample, fetched at its own number.
std::string seen(const std::string& places, const std::string& length) {
  return places + "e = expand(p) {shape=[batch,1]}\nr = range() {start=0, limit=batch, delta=1, dtype=!i64}\no = " +
         "unsqueeze(r) {axes=[1,2,3]}\na = expand(o) {shape=[batch,1," + length +
         ",1]}\nb = unsqueeze(a) {axes=[4]}\np1 = unsqueeze(p) {axes=[1,3]}\nc = expand(p1) {shape=[batch,1," + length +
         ",1]}\nd = unsqueeze(c) {axes=[4]}\nf = concat(b, d) {axis=4}\nrow = gather_nd(e, f) {batch_dims=0}\n" +
         "column = unsqueeze(e) {axes=[1,2]}\ng = le(column, row)\n";
}

TEST(HoistUniform, ComputesTruthValuesForOneSample) {
  ir::Graph graph = short_graph("input x [batch,2,3,3] samples 0\nconstant low [] -inf\n" +
                                seen("constant p i64 [1,3] 0 1 2\n", "3") + "y = where(g, x, low)\noutputs y\n");
  ASSERT_TRUE(hoist(graph));
  EXPECT_THAT(operators(graph), ElementsAre("where"));
  const ValueId mask = graph.inputs(graph.producer(graph.find("y")))[0];
  EXPECT_EQ(graph.value(mask).name, "g.sample");
  EXPECT_EQ(*graph.type(mask).shape, (ir::Shape{1, 1, 3, 3}));
  EXPECT_THAT(integers(graph, mask), ElementsAre(1, 0, 0, 1, 1, 0, 1, 1, 1));
  EXPECT_FALSE(hoist(graph)) << "the second time";
}

TEST(HoistUniform, LeavesFloatsToTheRunWhereNobodyComputesThem) {
  ir::Graph graph = short_graph(
      "input x [batch,3] samples 0\nconstant c [3] 1 2 3\ne = expand(c) {shape=[batch,3]}\ns = exp(e)\ny = mul(x, "
      "s)\noutputs y\n");
  ASSERT_TRUE(hoist(graph));
  EXPECT_THAT(operators(graph), ElementsAre("expand", "exp", "mul"));
  const ir::ValueType& type = graph.type(graph.find("s.sample"));
  EXPECT_EQ(*type.shape, (ir::Shape{1, 3}));
  EXPECT_FALSE(type.batch.has_batch());
  EXPECT_FALSE(hoist(graph)) << "the second time";
}

TEST(HoistUniform, KeepsOtherSymbolsInTasksOfOneSample) {
  ir::Graph graph = short_graph(
      "input x [batch,2,length,length] samples 0\nconstant low [] -inf\nt = range() {start=0, limit=length, delta=1, "
      "dtype=!i64}\n" +
      seen("p = unsqueeze(t) {axes=[0]}\n", "length") + "y = where(g, x, low)\noutputs y\n");
  ASSERT_TRUE(hoist(graph));
  const ValueId mask = graph.inputs(graph.producer(graph.find("y")))[0];
  EXPECT_EQ(graph.value(mask).name, "g.sample");
  const ir::Dim length = ir::Dim::symbol("length");
  EXPECT_EQ(*graph.type(mask).shape, (ir::Shape{1, 1, length, length}));
  for (const ValueId value : graph.values()) {
    const std::string_view name = graph.value(value).name;
    EXPECT_EQ(graph.type(value).batch.has_batch(), name == "x" || name == "y") << name;
  }
  EXPECT_FALSE(hoist(graph)) << "the second time";
}

TEST(HoistUniform, KeepsNamesThatAreAskedFor) {
  ir::Graph graph = short_graph(
      "input x [batch,3] samples 0\nconstant c i64 [3] 1 2 3\ne = expand(c) {shape=[batch,3]}\ns = mul(e, e)\ny = "
      "relu(x)\noutputs y s\n");
  const ir::ValueType type = graph.type(graph.find("s"));
  ASSERT_TRUE(hoist(graph));
  EXPECT_THAT(operators(graph), ElementsAre("expand", "relu"));
  EXPECT_EQ(graph.value(graph.outputs()[1]).name, "s");
  EXPECT_EQ(graph.type(graph.outputs()[1]), type);
  EXPECT_THAT(integers(graph, graph.find("s.sample")), ElementsAre(1, 4, 9));
}

TEST(HoistUniform, TakesNoNameThatStands) {
  ir::Graph graph = short_graph(
      "input x i64 [batch,3] samples 0\nconstant c i64 [3] 1 2 3\ne = expand(c) {shape=[batch,3]}\ns = mul(e, "
      "e)\ns.sample = add(x, s)\noutputs s.sample\n");
  ASSERT_TRUE(hoist(graph));
  EXPECT_THAT(operators(graph), ElementsAre("add"));
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "s.sample");
  EXPECT_THAT(integers(graph, graph.find("s.sample.1")), ElementsAre(1, 4, 9));
}

TEST(HoistUniform, MasksAttentionThatIsThereBroadcast) {
  ir::Graph graph = short_graph(
      "input q [batch,2,3,4] samples 0\ninput k [batch,2,3,4] samples 0\ninput v [batch,2,3,4] samples 0\n" +
      seen("constant p i64 [1,3] 0 1 2\n", "3") +
      "y = attention(q, k, v, g) {scale=0x1p-1, order=[0,1,2,3]}\noutputs y\n");
  ASSERT_TRUE(hoist(graph));
  EXPECT_THAT(operators(graph), ElementsAre("attention"));
}

TEST(HoistUniform, AsksForSamples) {
  ir::Graph graph = short_graph("input x [3]\nconstant c [1] 2\ne = expand(c) {shape=[3]}\ny = mul(x, e)\noutputs y\n");
  EXPECT_FALSE(hoist(graph));
}

}  // namespace
}  // namespace rannc::passes
