// Which stored tensors of small models are trained, and why.
#include "passes/recover_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::passes {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;

struct Recovered {
  ir::Graph graph;
  PassContext context;
  std::string kind(std::string_view name) const {
    const ValueId value = graph.find(name);
    return value.valid() ? std::string(ir::str(graph.value(value).kind)) : "absent";
  }
};

Recovered recover(std::string_view text, std::map<std::string, ir::ValueKind> kinds = {}) {
  auto graph = test::import_graph(text, 17);
  RANNC_CHECK(graph.ok()) << graph.diagnostic().str();
  Recovered result{*std::move(graph), {}};
  const auto outcome = RecoverParameters(std::move(kinds)).run(result.graph, result.context);
  EXPECT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  EXPECT_TRUE(ir::verify(result.graph).empty());
  return result;
}

TEST(RecoverParameters, WeightsByTheirPlace) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x, int64[batch] i) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] b = "
      "{0, 0},"
      " float[3, 2] table = {1, 2, 3, 4, 5, 6}, float[2] scale = {1, 1}, float[2, 2] m = {5, 6, 7, 8}, float half = "
      "{0.5}> {\n"
      "  e = Gather (table, i)\n  a = Gemm (x, w, b)\n  s = Add (a, e)\n  n = LayerNormalization (s, scale)\n"
      "  p = MatMul (n, m)\n  y = Mul (p, half)\n}");
  for (const char* const name : {"w", "b", "table", "scale", "m"}) EXPECT_EQ(model.kind(name), "parameter") << name;
  EXPECT_EQ(model.kind("half"), "constant");
  EXPECT_EQ(model.kind("x"), "input");
}

TEST(RecoverParameters, OneNumberInAWeightsPlaceCounts) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 1] y) <float[2, 1] w = {1, 2}, float[1] b = {3}, float[1] c = {4}>"
      " { a = Gemm (x, w, b)\n y = Mul (a, c) }");
  EXPECT_EQ(model.kind("b"), "parameter");
  EXPECT_EQ(model.kind("c"), "constant");
}

TEST(RecoverParameters, ThroughTasksThatDependOnNoInput) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 3] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[3, 1] g = {1, 2, "
      "3},"
      " double[3] b = {1, 2, 3}> {\n"
      "  v = Mul (w, g)\n  t = Transpose (v)\n  p = MatMul (x, t)\n  f = Cast <to = 1> (b)\n  y = Add (p, f)\n}");
  for (const char* const name : {"w", "g", "b"}) EXPECT_EQ(model.kind(name), "parameter") << name;
}

TEST(RecoverParameters, RunningStatisticsAreBuffers) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 3] x) => (float[batch, 2, 3] y) <float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = "
      "{0, 1},"
      " float[2] v = {1, 1}> { y = BatchNormalization <training_mode = 1> (x, s, b, m, v) }");
  EXPECT_EQ(model.kind("s"), "parameter");
  EXPECT_EQ(model.kind("b"), "parameter");
  EXPECT_EQ(model.kind("m"), "buffer");
  EXPECT_EQ(model.kind("v"), "buffer");
}

TEST(RecoverParameters, MasksAndAttentionBiasesAreConstants) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 2] x) => (float[batch, 2, 2] y) <float[2, 2] bias = {1, 2, 3, 4}, float[2] mask = {0, "
      "-65504},"
      " float[1, 2, 2] positions = {1, 2, 3, 4}> {\n"
      "  p = Add (x, positions)\n  q = MatMul (p, p)\n  s = Add (q, bias)\n  m = Add (s, mask)\n  y = Softmax (m)\n}");
  EXPECT_EQ(model.kind("positions"), "parameter");
  EXPECT_EQ(model.kind("bias"), "constant");
  EXPECT_EQ(model.kind("mask"), "constant");
}

TEST(RecoverParameters, RotaryTablesAreConstants) {
  const Recovered model = recover(
      "agraph (float[batch, 2, 2] x, float[batch, 1, 2] t) => (float[batch, 2, 2] y) <float[1, 2, 2] table = {1, 2, 3, "
      "4},"
      " float[1, 2, 1] frequencies = {1, 2}, float[2] gain = {1, 2}> {\n"
      "  a = Mul (x, table)\n  f = MatMul (frequencies, t)\n  c = Cos (f)\n  b = Mul (a, c)\n  y = Mul (b, gain)\n}");
  EXPECT_EQ(model.kind("table"), "constant");
  EXPECT_EQ(model.kind("frequencies"), "constant");
  EXPECT_EQ(model.kind("gain"), "parameter");
}

TEST(RecoverParameters, MergedTensorsComeApart) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] kept = {0, 0}> {\n"
      "  lost = Identity (kept)\n  a = Gemm (x, w, kept)\n  y = Gemm (a, w, lost)\n}");
  EXPECT_EQ(model.kind("kept"), "parameter");
  EXPECT_EQ(model.kind("lost"), "parameter");
  EXPECT_EQ(model.graph.task_count(), 2u);
}

/// ONNX's text syntax has no names with colons, so the graph is built by hand.
TEST(RecoverParameters, IdentitiesBetweenGeneratedNamesAreTies) {
  ir::Graph graph;
  const ir::ValueType square{ir::DType::kF32, ir::Shape{2, 2}, {}, {}};
  const ValueId x = graph.add_value(ir::ValueKind::kInput, "x", square);
  graph.add_input(x);
  const ValueId first = graph.add_value(ir::ValueKind::kConstant, "onnx::MatMul_1", square);
  const std::string second_name[] = {"onnx::MatMul_2"};
  const ValueId operands[] = {first};
  const TaskId identity = graph.add_task(ir::core("identity"), operands, {}, second_name);
  const ValueId second = graph.outputs(identity)[0];
  const ValueId product = graph.add(ir::core("matmul"), {x, first});
  graph.add_output(graph.add(ir::core("matmul"), {product, second}));
  for (const TaskId task : graph.tasks()) ASSERT_TRUE(ir::infer_types(graph, task).ok());
  PassContext context;
  ASSERT_TRUE(RecoverParameters().run(graph, context).ok());
  EXPECT_EQ(graph.task_count(), 3u);
  EXPECT_EQ(graph.value(first).kind, ir::ValueKind::kParameter);
}

TEST(RecoverParameters, TiesAreReported) {
  const Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] a = {1, 2, 3, 4}, float[2, 2] same = {1, 2, 3, "
      "4},"
      " float[2, 2] turned = {1, 3, 2, 4}, float[2] zero = {0, 0}, float[2] also = {0, 0}> {\n"
      "  p = Gemm (x, a, zero)\n  q = Gemm (p, same, also)\n  y = MatMul (q, turned)\n}");
  EXPECT_THAT(model.context.remarks,
              Contains(Field(&Note::message, HasSubstr("'a' and 'same' have the same values:"))));
  EXPECT_THAT(model.context.remarks,
              Contains(Field(&Note::message, HasSubstr("'a' and 'turned' have the same values, transposed"))));
  EXPECT_THAT(model.context.remarks, Not(Contains(Field(&Note::message, HasSubstr("'also'")))));
}

TEST(RecoverParameters, OverridesAreTakenAtTheirWord) {
  const char* const text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float half = {0.5}, int64[1] n "
      "= {1}>"
      " { p = MatMul (x, w)\n y = Mul (p, half) }";
  const Recovered model = recover(text, {{"w", ir::ValueKind::kConstant}, {"half", ir::ValueKind::kParameter}});
  EXPECT_EQ(model.kind("w"), "constant");
  EXPECT_EQ(model.kind("half"), "parameter");
  auto graph = test::import_graph(text, 17);
  PassContext context;
  for (const auto& [name, kind] : std::map<std::string, ir::ValueKind>{
           {"absent", ir::ValueKind::kParameter}, {"n", ir::ValueKind::kParameter}, {"x", ir::ValueKind::kConstant}}) {
    const auto outcome = RecoverParameters({{name, kind}}).run(*graph, context);
    ASSERT_FALSE(outcome.ok()) << name;
    EXPECT_THAT(outcome.diagnostic().message, HasSubstr("'" + name + "'"));
  }
}

TEST(RecoverParameters, ASecondRunChangesNothing) {
  Recovered model = recover(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] kept = {0, 0}> {\n"
      "  lost = Identity (kept)\n  a = Gemm (x, w, kept)\n  y = Gemm (a, w, lost)\n}");
  const auto again = RecoverParameters().run(model.graph, model.context);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->changed);
}

}  // namespace
}  // namespace rannc::passes
