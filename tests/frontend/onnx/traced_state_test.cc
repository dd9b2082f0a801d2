// Which stored tensors are trained of files that torch.onnx.export writes with dynamo=False.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "onnx/onnx_pb.h"
#include "passes/parameters/recover_parameters.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::passes {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Names = std::map<std::string, std::string>;
using Kinds = std::map<std::string, std::string>;

/// ONNX's text syntax has no names with dots, colons or slashes: `names` says what is meant.
std::string renamed(const Names& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

struct Traced {
  explicit Traced(std::string_view text, const Names& names = {}, const std::string& producer = "pytorch") {
    ONNX_NAMESPACE::ModelProto model;
    RANNC_CHECK(model.ParseFromString(test::onnx_bytes(test::onnx_model(text, 17))));
    model.set_producer_name(producer);
    for (auto& tensor : *model.mutable_graph()->mutable_initializer()) tensor.set_name(renamed(names, tensor.name()));
    for (auto& node : *model.mutable_graph()->mutable_node()) {
      for (std::string& input : *node.mutable_input()) input = renamed(names, input);
      for (std::string& output : *node.mutable_output()) output = renamed(names, output);
      // The path of the module and the operator: those without a name are of the model itself.
      node.set_name(node.name().empty() ? "/" + node.output(0) + node.op_type() : renamed(names, node.name()));
    }
    auto imported = frontend::read_onnx_bytes(model.SerializeAsString(), "test.onnx");
    RANNC_CHECK(imported.ok()) << imported.diagnostic().str();
    graph = std::move(imported->graph);
    warnings = imported->notes.counted_warnings;
    const StoredFacts known{{}, std::move(imported->notes.stored)};
    const auto outcome = RecoverParameters(known).run(graph, context);
    EXPECT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    EXPECT_TRUE(ir::verify(graph).empty());
    PassContext again;
    EXPECT_FALSE(RecoverParameters(known).run(graph, again).value().changed) << "a second run";
  }
  /// Of all stored tensors of floats.
  Kinds kinds() const {
    Kinds found;
    for (const ValueId value : graph.values()) {
      const auto& each = graph.value(value);
      const bool stored = !each.producer.valid() && each.kind != ir::ValueKind::kInput;
      if (stored && ir::is_float(each.type.dtype)) found.emplace(each.name, ir::str(each.kind));
    }
    return found;
  }
  size_t tasks(std::string_view op) const {
    size_t count = 0;
    for (const TaskId task : graph.tasks()) count += graph.op(task).name == op ? 1 : 0;
    return count;
  }
  ir::Graph graph;
  PassContext context;
  std::map<std::string, size_t> warnings;  ///< of the frontend
};

auto reports(const std::string& part) { return Contains(Field(&Note::message, HasSubstr(part))); }

const char* const kGates =
    "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[1] times = {2}, float minus = {3}, float by = {4}, float "
    "power = {2}, float low = {0.1}, float above = {0.2}, float made = {0.3}, float out = {5}> {\n"
    "  a = Mul (x, times)\n  b = Sub (a, minus)\n  c = Div (by, b)\n  d = Pow (c, power)\n  e = Clip (d, low)\n"
    "  f = Greater (e, above)\n  g = Where (f, out, e)\n  y = Add (g, made)\n}";

/// The exporter writes numbers of the code as Constant nodes. One that is compared alone has no gradient, and bounds of
/// Clip become attributes, of which the frontend warns.
TEST(TracedState, NamedNumbersAreParametersInEveryPlace) {
  const Names names{{"made", "onnx::Add_7"}, {"minus", "block.minus"}};
  const Kinds kinds = Traced(kGates, names).kinds();
  EXPECT_EQ(kinds, (Kinds{{"times", "parameter"},
                          {"block.minus", "parameter"},
                          {"by", "parameter"},
                          {"power", "parameter"},
                          {"low", "constant"},
                          {"above", "constant"},
                          {"onnx::Add_7", "constant"},
                          {"out", "parameter"}}));
}

TEST(TracedState, BoundsThatAreNotTrainedAreNamed) {
  EXPECT_THAT(Traced(kGates).warnings,
              testing::ElementsAre(testing::Key("'low' is state of the program and bounds a Clip: it is not trained")));
  EXPECT_THAT(Traced(kGates, {}, "other").warnings, IsEmpty());
}

TEST(TracedState, NamesOfOtherExportersProveNothing) {
  const Kinds kinds = Traced(kGates, {{"minus", "block.minus"}}, "other").kinds();
  for (const auto& [name, kind] : kinds) EXPECT_EQ(kind, "constant") << name;
}

TEST(TracedState, NumbersThatTheExporterComputedAreNamed) {
  EXPECT_THAT(Traced(kGates, {{"made", "onnx::Add_7"}}).context.warnings, reports("onnx::Add_7"));
}

const char* const kSpectral =
    "agraph (float[batch, 3] x) => (float[batch, 2] y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[2] u = {0.6, 0.8}, "
    "float[3] v = {0, 0.6, 0.8}, float[2] b = {1, 2}> {\n"
    "  m = MatMul (w, v)\n  s = MatMul (u, m)\n  n = Div (w, s)\n  y = Gemm <transB = 1> (x, n, b)\n}";

TEST(TracedState, FactorsOfANumberThatScalesAWeightAreBuffers) {
  const Traced model(kSpectral);
  EXPECT_EQ(model.kinds(), (Kinds{{"w", "parameter"}, {"u", "buffer"}, {"v", "buffer"}, {"b", "parameter"}}));
  EXPECT_THAT(model.context.remarks, reports("2 tensors that only scale or mask weights are buffers (u, v)"));
}

TEST(TracedState, FactorsOfOneRowAreBuffersToo) {
  const Traced model(
      "agraph (float[batch, 3] x) => (float[batch, 1] y) <float[1, 3] w = {1, 2, 3}, float[1] u = {1}, float[3] v = "
      "{0, "
      "0.6, 0.8}, float[1] b = {1}> {\n"
      "  m = MatMul (w, v)\n  s = MatMul (u, m)\n  n = Div (w, s)\n  y = Gemm <transB = 1> (x, n, b)\n}");
  EXPECT_EQ(model.kinds(), (Kinds{{"w", "parameter"}, {"u", "buffer"}, {"v", "buffer"}, {"b", "parameter"}}));
}

/// Low-rank weights, learned scales and what meets data.
TEST(TracedState, FactorsOfWeightsAreParameters) {
  const Traced low_rank(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 1] b = {1, 2}, float[1, 2] a = {3, 4}, float[2, 2] "
      "w "
      "= {1, 2, 3, 4}, float[2] g = {1, 2}> {\n"
      "  p = MatMul (b, a)\n  q = Add (w, p)\n  r = Mul (q, g)\n  y = MatMul (x, r)\n}");
  for (const auto& [name, kind] : low_rank.kinds()) EXPECT_EQ(kind, "parameter") << name;
  const Traced data(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2] u = {0.6, 0.8}, "
      "float[2] v = {0.8, 0.6}> {\n"
      "  m = MatMul (w, v)\n  s = MatMul (u, m)\n  n = Div (w, s)\n  h = Add (x, u)\n  y = MatMul (h, n)\n}");
  EXPECT_EQ(data.kinds(), (Kinds{{"w", "parameter"}, {"u", "parameter"}, {"v", "buffer"}}));
}

TEST(TracedState, MasksOfWeightsAreBuffers) {
  const Traced model(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] mask = {1, 0, 1, "
      "1}, float[2, 2] gate = {1, 0.5, 1, 1}> { a = Mul (w, mask)\n b = Mul (a, gate)\n y = MatMul (x, b) }");
  EXPECT_EQ(model.kinds(), (Kinds{{"w", "parameter"}, {"mask", "buffer"}, {"gate", "parameter"}}));
}

const char* const kLastBias =
    "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float[1, 2] last = {0, 0}> {\n"
    "  h = MatMul (x, w)\n  y = Add (h, last)\n}";

TEST(TracedState, ARowOfZerosThatNoLayerOwnsIsReported) {
  const Names names{{"w", "model.layer.weight"}, {"last", "final_bias"}};
  const Traced model(kLastBias, names);
  EXPECT_EQ(model.kinds().at("final_bias"), "buffer");
  EXPECT_THAT(model.context.warnings, reports("'final_bias' is a row of zeros that no layer of the model owns"));
  const Traced owned(kLastBias, {{"w", "model.layer.weight"}, {"last", "model.head.bias"}});
  EXPECT_EQ(owned.kinds().at("model.head.bias"), "parameter");
  EXPECT_THAT(owned.context.warnings, IsEmpty());
}

/// `F.linear(x, w) + x @ w.T.reshape(…)`: the exporter stores the weight twice.
TEST(TracedState, ComputedCopiesAreComputedAgain) {
  const std::string head =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 5}, float[2, 2] copy = ";
  const std::string nodes = "> { a = MatMul (x, w)\n y = MatMul (a, copy) }";
  const std::map<std::string, std::string> forms{{"{1, 3, 2, 5}", "core.permute"},
                                                 {"{-1, -2, -3, -5}", "core.neg"},
                                                 {"{2, 4, 6, 10}", "core.mul"},
                                                 {"{0, -1, -2, -4}", "core.add"},
                                                 {"{1, 4, 9, 25}", "core.mul"}};
  for (const auto& [numbers, op] : forms) {
    const Traced model(head + numbers + nodes, {{"copy", "onnx::MatMul_3"}});
    EXPECT_EQ(model.kinds().at("w"), "parameter") << numbers;
    EXPECT_FALSE(model.kinds().contains("onnx::MatMul_3")) << numbers;
    EXPECT_EQ(model.tasks(op), 1) << numbers;
    EXPECT_THAT(model.context.remarks, reports("the exporter computed 'onnx::MatMul_3' is 'w'")) << numbers;
  }
}

/// `F.linear(x, self.w.t()) + F.linear(x, self.w)`: the place of the turned one is that of a layer's `weight`.
TEST(TracedState, AViewIsNoWeightOfItsModule) {
  const Traced model(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 5}, float[2, 2] copy = {1, 3, 2, "
      "5}> { [one] a = MatMul (x, w)\n [two] b = MatMul (x, copy)\n [three] y = Sum (a, b) }",
      {{"copy", "onnx::MatMul_3"}, {"w", "a.w"}, {"one", "/a/MatMul"}, {"two", "/a/MatMul_1"}, {"three", "/a/Sum"}});
  EXPECT_EQ(model.kinds(), (Kinds{{"a.w", "parameter"}}));
  EXPECT_EQ(model.tasks("core.permute"), 1);
  EXPECT_THAT(model.context.open, IsEmpty());
  EXPECT_TRUE(model.graph.state().empty());
}

/// A learned row and the mean of the samples are subtracted alike.
TEST(TracedState, NamedTensorsThatUseDoesNotTrainAreNamed) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2] row = {1, 2}, float[2, 2] w = {1, 2, 3, 5}> {\n"
      "  [sub] a = Sub (row, x)\n y = MatMul (a, w) }";
  const Traced named(text, {{"row", "a.row"}, {"w", "b.weight"}, {"sub", "/a/Sub"}});
  EXPECT_EQ(named.kinds(), (Kinds{{"a.row", "constant"}, {"b.weight", "parameter"}}));
  EXPECT_THAT(named.context.warnings,
              reports("1 tensors with names of the program are not trained because of their use alone "
                      "(a.row): --train trains them"));
  // A parameter of the root module has no module's name before its own, and no exporter but PyTorch's writes any.
  EXPECT_THAT(Traced(text, {{"sub", "/Sub"}}).context.warnings, reports("(row): --train trains them"));
  EXPECT_THAT(Traced(text, {{"sub", "Sub__12"}}, "tf2onnx").context.warnings, reports("(row): --train trains them"));
}

/// They may be two weights, or one that is read as it is and computed on.
TEST(TracedState, WeightsOfOneModuleThatMayBeOneAreNamed) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 5}, float[2, 2] v = {4, 3, 8, 1}> "
      "{\n  [first] a = MatMul (x, w)\n  [second] y = MatMul (a, v)\n}";
  const Names names = {{"w", "onnx::MatMul_3"}, {"v", "onnx::MatMul_4"}, {"first", "/part/MatMul"}};
  Names one = names, two = names;
  one["second"] = "/part/MatMul_1";
  two["second"] = "/other/MatMul";
  EXPECT_THAT(Traced(text, one).context.warnings, reports("weights of one module (onnx::MatMul_3, onnx::MatMul_4)"));
  EXPECT_THAT(Traced(text, two).context.warnings, IsEmpty());
}

/// PyTorch gives the row no gradient; the file does not say which row it is.
TEST(TracedState, ARowOfZerosOfATableMayBePadding) {
  const auto open = [](const char* table) {
    return Traced(fmt::format(
                      "agraph (int64[batch, 3] x) => (float[batch, 3, 2] y) <float[3, 2] t = {{{}}}> {{ y = Gather (t, "
                      "x) }}",
                      table),
                  {{"t", "words.weight"}})
        .context.warnings;
  };
  EXPECT_THAT(open("1, 2, 0, 0, 3, 4"), reports("only row 1 of 'words.weight' is all zeros"));
  EXPECT_THAT(open("1, 2, 0, 5, 3, 4"), Not(reports("all zeros")));
  EXPECT_THAT(open("0, 0, 0, 0, 3, 4"), Not(reports("all zeros"))) << "two such rows";
}

/// `table(x) @ cat([table.weight.t(), rest])`, carried out by the exporter.
TEST(TracedState, APartOfAJoinedTensorIsNamed) {
  const auto text = [](const char* joined) {
    return fmt::format(
        "agraph (int64[batch, 3] x) => (float[batch, 3, 4] y) <float[4, 2] t = {{1, 2, 3, 5, 8, 6, 7, 9}}, float[3, 4] "
        "j = "
        "{{{}}}> {{\n  [look] a = Gather (t, x)\n  [turn] b = MatMul (a, u)\n  [head] y = MatMul (b, j)\n}}",
        joined);
  };
  const Names names = {{"t", "table.weight"}, {"j", "onnx::MatMul_7"}, {"look", "/table/Gather"}, {"head", "/MatMul"}};
  const auto warnings = [&](const char* joined) {
    std::string model = text(joined);
    model.insert(model.find(", float[3, 4] j"), ", float[2, 3] u = {1, 4, 2, 6, 5, 9}");
    return Traced(model, names).context.warnings;
  };
  EXPECT_THAT(warnings("1, 3, 8, 7, 2, 5, 6, 9, 4, 4, 1, 2"),
              reports("'onnx::MatMul_7' contains the numbers of 'table.weight', transposed, as if"));
  EXPECT_THAT(warnings("1, 3, 8, 7, 2, 5, 6, 8, 4, 4, 1, 2"), Not(reports("contains the numbers")));
}

/// What has no layer's name may be a buffer.
TEST(TracedState, DoubtfulTensorsAreListedFirst) {
  const Traced model(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 5}, float[2] b = {1, 2}, float[2, "
      "2] v = {1, 2, 3, 6}, float[2] row = {3, 4}> {\n  a = Gemm (x, w, b)\n c = MatMul (a, v)\n y = Add (c, row) }",
      {{"w", "a.weight"}, {"b", "a.bias"}, {"v", "b.weight"}, {"row", "c.row"}});
  EXPECT_THAT(model.context.remarks,
              reports("4 tensors are trained because of their use alone (c.row, a.bias, a.weight and 1 more)"));
}

TEST(TracedState, SlicesAndNormsAreComputedAgain) {
  const Traced slices(
      "agraph (float[batch, 1, 2] x) => (float[batch, 1, 2] y) <float[1, 3, 2] p = {1, 2, 3, 4, 5, 6}, float[1, 1, 2] "
      "one = {3, 4}> { a = ReduceSum (p)\n b = Add (x, one)\n y = Mul (a, b) }",
      {{"one", "onnx::Add_3"}});
  EXPECT_EQ(slices.kinds(), (Kinds{{"p", "parameter"}}));
  EXPECT_EQ(slices.tasks("core.slice"), 1);
  const Traced norms(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {3, 4, 6, 8}, float[2, 1] norm = {5, 10}> {\n"
      "  n = Div (w, norm)\n  y = MatMul (x, n)\n}",
      {{"norm", "onnx::Div_3"}});
  EXPECT_EQ(norms.kinds(), (Kinds{{"w", "parameter"}}));
  EXPECT_EQ(norms.tasks("core.sqrt"), 1);
}

/// `gate * a + (1 - gate) * b`. One number alone is said to speak for it.
TEST(TracedState, ComputedNumbersAreComputedAgainWhereOneTensorAloneIsMeant) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float gate = {0.375}, float other = {0.75}, float rest = "
      "{0.625}> { a = Mul (x, gate)\n b = Mul (x, rest)\n c = Add (a, b)\n y = Mul (c, other) }";
  const Traced one(text, {{"rest", "onnx::Mul_4"}});
  EXPECT_EQ(one.kinds().at("gate"), "parameter");
  EXPECT_FALSE(one.kinds().contains("onnx::Mul_4"));
  EXPECT_THAT(one.context.warnings,
              reports("'onnx::Mul_4' is 'gate': it, negated, plus 1, judging by a single number"));
  std::string two = text;
  two.replace(two.find("0.75"), 4, "0.375");
  const Traced several(two, {{"rest", "onnx::Mul_4"}});
  EXPECT_EQ(several.kinds().at("onnx::Mul_4"), "constant");
  EXPECT_THAT(several.context.warnings, reports("onnx::Mul_4"));
}

/// Copies of whole layers begin equal: those are read by other modules.
TEST(TracedState, EqualTensorsOfOtherModulesStayApart) {
  const Traced model(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 5}, float[2, 2] copy = {1, 3, 2, "
      "5}> { [one] a = MatMul (x, w)\n [two] y = MatMul (a, copy) }",
      {{"copy", "onnx::MatMul_3"}, {"w", "a.weight"}, {"one", "/a/MatMul"}, {"two", "/b/MatMul"}});
  EXPECT_EQ(model.kinds(), (Kinds{{"a.weight", "parameter"}, {"onnx::MatMul_3", "parameter"}}));
}

TEST(TracedState, TensorsOfLostParametersAreNamed) {
  const Traced model(
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2] w = {1, 2}, float[2] made = {3, 7}> {\n"
      "  a = Mul (x, w)\n y = Add (a, made) }",
      {{"made", "onnx::Add_3"}});
  EXPECT_EQ(model.kinds(), (Kinds{{"w", "parameter"}, {"onnx::Add_3", "parameter"}}));
  EXPECT_THAT(model.context.warnings, reports("1 tensors that the exporter computed are trained in place"));
}

/// A node of the program that hands on its operand is no tensor that the exporter left out.
TEST(TracedState, IdentitiesOfTheProgramAreViews) {
  const std::string text =
      "agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2] p = {1, 2}> {\n"
      "  one = Identity (p)\n a = Mul (x, one)\n y = Add (a, p) }";
  EXPECT_EQ(Traced(text, {{"one", "/act/Identity_output_0"}}).kinds(), (Kinds{{"p", "parameter"}}));
  EXPECT_EQ(Traced(text, {{"one", "onnx::Mul_2"}}).kinds(), (Kinds{{"p", "parameter"}}));
  EXPECT_EQ(Traced(text, {{"one", "other"}}).kinds(), (Kinds{{"other", "parameter"}, {"p", "parameter"}}));
}

}  // namespace
}  // namespace rannc::passes
