// What raw exports write out becomes one operator, in the spelling of each exporter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op/op.h"
#include "passes/pipeline.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using Names = std::vector<std::string>;

constexpr int kOpset = 18;

/// Names of the operators that are left in order, but for numbers.
Names operators(const ir::Graph& graph) {
  Names names;
  for (const TaskId task : graph.tasks()) {
    const std::string name = graph.op(task).name.substr(std::string("core.").size());
    if (name != "full") names.push_back(name);
  }
  return names;
}

Names compiled(const std::string& text, const std::string& loss, const std::string& excluded = "") {
  SCOPED_TRACE(text);
  auto graph = test::import_graph(text, kOpset);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.diagnostic().str());
  if (!graph.ok()) return {};
  passes::PipelineOptions options;
  if (!loss.empty()) options.losses = {{.kind = passes::LossSpec::Kind::kInGraph, .output = loss}};
  if (!excluded.empty()) options.excluded = {excluded};
  passes::PassContext context;
  const auto report = passes::standard_pipeline(options).run(*graph, context);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.failure->str());
  return operators(*graph);
}

// --- losses that a module returns itself

std::string returned(const std::string& nodes) {
  return "agraph (float[batch, 4] x, int64[batch] t) => (float loss) <float[4, 5] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, "
         "1, 2, "
         "3, 4, 5, 6, 7, 8, 9, 0}, int64[1] one = {1}, int64 step = {1}, int64[1] minus = {-1}, int64 ignored = "
         "{-100}, int64 zero = "
         "{0}, "
         "float none = {0}, int64 depth = {5}, int64[2] values = {0, 1}, int64[5] classes = {0, 1, 2, 3, 4}> { z = "
         "MatMul "
         "(x, w) " +
         nodes + " }";
}

void expect_cross_entropy(const std::string& nodes) {
  const Names names = compiled(returned(nodes), "loss");
  EXPECT_THAT(names, Contains("cross_entropy_sum")) << nodes;
  for (const char* const gone : {"log_softmax", "gather_elements", "gather_nd", "sum", "mul"})
    EXPECT_THAT(names, Not(Contains(gone))) << nodes;
  const Names apart = compiled(returned(nodes), "loss", "fuse-cross-entropy");
  EXPECT_THAT(apart, Not(Contains("cross_entropy_sum"))) << nodes;
}

// -F.log_softmax(z, -1).gather(1, t.unsqueeze(1)).mean(), with and without squeeze.
TEST(FusedExports, CrossEntropyByGather) {
  const std::string picked =
      " l = LogSoftmax <axis = -1> (z) u = Unsqueeze (t, one) g = GatherElements <axis = 1> (l, u) ";
  expect_cross_entropy(picked + "m = ReduceMean <keepdims = 0> (g) loss = Neg (m)");
  expect_cross_entropy(picked + "s = Squeeze (g, minus) m = ReduceMean <keepdims = 0> (s) loss = Neg (m)");
  expect_cross_entropy(picked + "k = ReduceMean (g) m = Squeeze (k) loss = Neg (m)");
  expect_cross_entropy(picked + "s = Squeeze (g, one) n = Neg (s) loss = ReduceSum <keepdims = 0> (n)");
}

// -(F.one_hot(t, 5) * F.log_softmax(z, -1)).sum(-1).mean()
TEST(FusedExports, CrossEntropyByOnes) {
  const std::string weighed =
      " l = LogSoftmax <axis = -1> (z) w5 = Mul (f, l) s = ReduceSum <keepdims = 0> (w5, minus) ";
  expect_cross_entropy("h = OneHot <axis = -1> (t, depth, values) f = Cast <to = 1> (h)" + weighed +
                       "m = ReduceMean <keepdims = 0> (s) loss = Neg (m)");
  expect_cross_entropy("u = Unsqueeze (t, minus) e = Equal (u, classes) i = Cast <to = 7> (e) f = Cast <to = 1> (i)" +
                       weighed + "k = ReduceMean (s) m = Squeeze (k) loss = Neg (m)");
}

// Labels of -100 are ignored by hand: by a product, by masked_fill, by where.
TEST(FusedExports, CrossEntropyOfLabelsThatCount) {
  const std::string mask = " e = Equal (t, ignored) m = Not (e) ";
  const std::string pick =
      " l = LogSoftmax <axis = -1> (z) u = Unsqueeze (i, one) g = GatherElements <axis = 1> (l, u) s = "
      "Squeeze (g, one) n = Neg (s) ";
  const std::string end =
      " a = ReduceSum <keepdims = 0> (y) c = Cast <to = 7> (m) b = ReduceSum <keepdims = 0> (c) d = "
      "Cast <to = 1> (b) loss = Div (a, d)";
  expect_cross_entropy(mask + "i = Clip (t, zero)" + pick + "f = Cast <to = 1> (m) y = Mul (n, f)" + end);
  expect_cross_entropy(mask + "i = Where (e, zero, t)" + pick + "y = Where (e, none, n)" + end);
  expect_cross_entropy(mask + "i = Where (m, t, zero)" + pick + "y = Where (m, n, none)" + end);
}

// -F.log_softmax(z, -1)[torch.arange(n), t].mean()
TEST(FusedExports, CrossEntropyByTuples) {
  const std::string rows =
      " l = LogSoftmax <axis = -1> (z) d = Shape (x) n = Gather <axis = 0> (d, zero) r = Range (zero, n, "
      "step) a = Unsqueeze (r, minus) u = Unsqueeze (t, minus) p = Concat <axis = -1> (a, u) g = "
      "GatherND <batch_dims = 0> (l, p) ";
  expect_cross_entropy(rows + "k = ReduceMean (g) m = Squeeze (k) loss = Neg (m)");
  expect_cross_entropy(rows + "m = ReduceMean <keepdims = 0> (g) loss = Neg (m)");
}

// F.nll_loss(F.log_softmax(z)), which has an operator of its own, and one loss for each sample.
TEST(FusedExports, CrossEntropyByItsOperators) {
  const Names whole =
      compiled(returned("l = LogSoftmax <axis = 1> (z) loss = NegativeLogLikelihoodLoss (l, t)"), "loss");
  EXPECT_THAT(whole, ElementsAre("linear", "cross_entropy_sum"));
  expect_cross_entropy(
      "e = SoftmaxCrossEntropyLoss <reduction = \"none\", ignore_index = -100> (z, t) k = ReduceMean (e) "
      "loss = Squeeze (k)");
}

// --- convolutions, permutations, parts

TEST(FusedExports, BiasesOfConvolutions) {
  const std::string begin =
      "agraph (float[batch, 2, 5] x) => (float[batch, 3, 3] y) <float[3, 2, 3] w = {1, 2, 3, 4, 5, 6, "
      "7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, ";
  const std::string wide = begin + "float[3, 1] b = {1, 2, 3}> { c = Conv (x, w) y = Add (c, b) }";
  EXPECT_THAT(compiled(wide, ""), ElementsAre("reshape", "conv"));
  EXPECT_THAT(compiled(wide, "", "fuse-conv-bias"), ElementsAre("conv", "add"));
  const std::string row = begin + "float[3] p = {1, 2, 3}, ";
  for (const char* const body :
       {"int64[3] s = {1, -1, 1}> { b = Reshape (p, s) c = Conv (x, w) y = Add (b, c) }",
        "int64[1] s = {0}, int64[1] e = {2}> { a = Unsqueeze (p, s) b = Unsqueeze (a, e) c = Conv "
        "(x, w) y = Add (c, b) }"})
    EXPECT_THAT(compiled(row + body, ""), ElementsAre("conv")) << body;
}

TEST(FusedExports, PermutationsAroundAnActivation) {
  const std::string text =
      "agraph (float[batch, 2, 3, 5] x) => (float[batch, 2, 3, 5] y) <float[1] half = {0.5}> { p = "
      "Transpose <perm = [0, 2, 3, 1]> (x) e = Mul (p, half) f = Tanh (e) q = Transpose <perm = [0, 3, "
      "1, 2]> (f) y = Relu (q) }";
  EXPECT_THAT(compiled(text, ""), ElementsAre("mul", "tanh", "relu"));
  EXPECT_THAT(compiled(text, "", "fuse-permutes"), ElementsAre("permute", "mul", "tanh", "permute", "relu"));
}

TEST(FusedExports, PartsOfOneStack) {
  const std::string text =
      "agraph (float[batch, 4, 2] x) => (float[batch, 2] y) <int64 zero = {0}, int64 last = {-1}> { a = "
      "Gather <axis = 1> (x, zero) b = Gather <axis = 1> (x, last) y = Mul (a, b) }";
  EXPECT_THAT(compiled(text, ""), ElementsAre("slice", "squeeze", "slice", "squeeze", "mul"));
  EXPECT_THAT(compiled(text, "", "fuse-selects"), ElementsAre("gather", "gather", "mul"));
}

}  // namespace
}  // namespace rannc::frontend
