// Which core operators ONNX operators become, over opsets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "frontend/onnx/internal/model/scan.h"
#include "frontend/onnx/internal/translate/translators.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using test::import_graph;
using testing::ElementsAre;

/// Short names of the operators, in order.
std::vector<std::string> ops(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) names.push_back(graph.op(task).name.substr(5));
  return names;
}

/// The type of the first output, `f32[batch, 4]`.
std::string output(const ir::Graph& graph, size_t index = 0) {
  const auto& type = graph.type(graph.outputs()[index]);
  return std::string(ir::str(type.dtype)) + (type.shape ? ir::str(*type.shape) : "?");
}

/// Imports, verifies, and says what the graph is made of.
class Imported {
 public:
  Imported(std::string_view text, int opset) : graph_(import_graph(text, opset)) {
    if (!graph_.ok()) {
      ADD_FAILURE() << graph_.diagnostic().str();
      return;
    }
    for (const Diagnostic& wrong : ir::verify(*graph_)) ADD_FAILURE() << wrong.str();
  }
  const ir::Graph& operator*() const { return *graph_; }
  const ir::Graph* operator->() const { return &*graph_; }
  bool ok() const { return graph_.ok(); }
  std::vector<std::string> ops() const { return ok() ? frontend::ops(*graph_) : std::vector<std::string>(); }
  std::string output(size_t index = 0) const { return ok() ? frontend::output(*graph_, index) : ""; }
  const ir::Attributes& last() const { return graph_->attributes(TaskId(graph_->task_count() - 1)); }

 private:
  Result<ir::Graph> graph_;
};

TEST(Translation, KeepsNamesAndPlaces) {
  const Imported model("agraph (float[batch, 4] x) => (float[batch, 4] y) { [first] h = Relu (x)\n y = Tanh (h) }", 17);
  ASSERT_TRUE(model.ok());
  EXPECT_THAT(model.ops(), ElementsAre("relu", "tanh"));
  EXPECT_TRUE(model->find("h").valid());
  EXPECT_EQ(model->location(TaskId(0)).node, "first");
  EXPECT_EQ(model->location(TaskId(0)).file, "test.onnx");
  EXPECT_EQ(model->location(TaskId(1)).node, "Tanh y");
  EXPECT_EQ(model->name(), "agraph");
}

TEST(Translation, BatchIsTheFirstSymbolOfAxisZero) {
  const Imported model("agraph (float[T, 4] x, float[4] c) => (float[T, 4] y) { y = Add (x, c) }", 17);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->batch_symbol(), "T");
  EXPECT_EQ(model->type(model->inputs()[0]).batch.axis, 0);
  EXPECT_FALSE(model->type(model->inputs()[1]).batch.has_batch());
  ImportOptions options;
  options.batch_symbol = "B";
  const auto requested = import_graph("agraph (float[T, B, 4] x) => (float[T, B, 4] y) { y = Relu (x) }", 17, options);
  ASSERT_TRUE(requested.ok());
  EXPECT_EQ(requested->type(requested->inputs()[0]).batch.axis, 1);
  options.batch_symbol = "C";
  EXPECT_FALSE(import_graph("agraph (float[T, B, 4] x) => (float[T, B, 4] y) { y = Relu (x) }", 17, options).ok());
}

TEST(Translation, ABatchThatIsCalledSoIsOnAnyAxis) {
  const auto named =
      test::import_graph("agraph (float[T, Batch_size, 3] x) => (float[T, Batch_size, 3] y) { y = Tanh (x) }", 17);
  ASSERT_TRUE(named.ok()) << named.diagnostic().str();
  EXPECT_EQ(named->batch_symbol(), "Batch_size");
  EXPECT_EQ(named->type(named->outputs()[0]).batch.axis, 1);
  const auto several = test::import_graph(
      "agraph (float[batch, 3] x, float[7, batch2, 3] z) => (float[batch, 3] y) { y = Tanh (x) }", 17);
  ASSERT_TRUE(several.ok()) << several.diagnostic().str();
  EXPECT_EQ(several->batch_symbol(), "batch");
}

TEST(Translation, OtherNamesOfTheBatch) {
  const Imported two("agraph (float[images, 4] x, float[texts, 4] z) => (float[images, 4] y) { y = Add (x, z) }", 17);
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(ir::str(*two->type(two->inputs()[1]).shape), ir::str(*two->type(two->inputs()[0]).shape));
  // s1 is an axis of its own elsewhere, but the sum runs only if it equals s0.
  const Imported added("agraph (float[b, s0] x, float[b, s1] z) => (float[b, s0] y) { y = Add (x, z) }", 17);
  ASSERT_TRUE(added.ok());
  EXPECT_EQ(added.output(), "f32[b,s0]");
}

TEST(Translation, GemmBecomesLinearWhereItIsOne) {
  const std::string head =
      "agraph (float[batch, 4] x) => (float[batch, 2] y) <float[2, 4] w = {1,2,3,4,5,6,7,8},"
      " float[4, 2] v = {1,2,3,4,5,6,7,8}, float[2] b = {1, 2}, float[1] c = {1}> ";
  const Imported plain(head + "{ y = Gemm <transB = 1> (x, w, b) }", 17);
  EXPECT_THAT(plain.ops(), ElementsAre("linear"));
  EXPECT_EQ(plain.last().text("layout"), "oi");
  const Imported straight(head + "{ y = Gemm (x, v) }", 17);
  EXPECT_THAT(straight.ops(), ElementsAre("linear"));
  EXPECT_EQ(straight.last().text("layout"), "io");
  EXPECT_THAT(Imported(head + "{ y = Gemm <alpha = 2.0> (x, v, b) }", 17).ops(),
              ElementsAre("linear", "full", "mul", "add"));
  EXPECT_THAT(Imported(head + "{ y = Gemm <beta = 0.5> (x, v, b) }", 17).ops(),
              ElementsAre("linear", "full", "mul", "add"));
  EXPECT_THAT(Imported(head + "{ y = Gemm (x, v, c) }", 17).ops(), ElementsAre("linear", "add"));
  EXPECT_EQ(plain.output(), "f32[batch,2]");
}

TEST(Translation, AxesAsAttributeAndAsOperand) {
  for (const auto& [opset, text] : std::vector<std::pair<int, std::string>>{
           {12, "{ y = ReduceSum <axes = [-1], keepdims = 0> (x) }"},
           {13, "{ a = Constant <value_ints = [-1]> ()\n y = ReduceSum <keepdims = 0> (x, a) }"}}) {
    const Imported model("agraph (float[batch, 4] x) => (float[batch] y) " + text, opset);
    EXPECT_THAT(model.ops(), ElementsAre("sum"));
    EXPECT_THAT(model.last().integers("axes"), ElementsAre(1));
    EXPECT_EQ(model.output(), "f32[batch]");
  }
  EXPECT_THAT(Imported("agraph (float[2, 3] x) => (float[1, 1] y) { y = ReduceMax (x) }", 17).last().integers("axes"),
              ElementsAre(0, 1));
  EXPECT_THAT(
      Imported("agraph (float[2, 3] x) => (float[2, 3] y) { y = ReduceSum <noop_with_empty_axes = 1> (x) }", 17).ops(),
      ElementsAre("identity"));
  EXPECT_EQ(
      Imported("agraph (float[batch, 1, 4] x) => (float[batch, 4] y) { y = Squeeze <axes = [1]> (x) }", 11).output(),
      "f32[batch,4]");
  EXPECT_EQ(Imported("agraph (float[batch, 4] x) => (float[batch, 1, 4] y) "
                     "{ a = Constant <value_ints = [-2]> ()\n y = Unsqueeze (x, a) }",
                     13)
                .output(),
            "f32[batch,1,4]");
}

TEST(Translation, SoftmaxBefore13CountsAllLaterAxes) {
  const Imported old("agraph (float[batch, 3, 4] x) => (float[batch, 3, 4] y) { y = Softmax <axis = 1> (x) }", 11);
  EXPECT_THAT(old.ops(), ElementsAre("reshape", "softmax", "reshape"));
  EXPECT_EQ(old.output(), "f32[batch,3,4]");
  const Imported young("agraph (float[batch, 3, 4] x) => (float[batch, 3, 4] y) { y = Softmax <axis = 1> (x) }", 13);
  EXPECT_THAT(young.ops(), ElementsAre("softmax"));
  EXPECT_EQ(young.last().integer("axis"), 1);
  EXPECT_THAT(Imported("agraph (float[batch, 4] x) => (float[batch, 4] y) { y = Softmax (x) }", 11).ops(),
              ElementsAre("softmax"));
}

TEST(Translation, ClipBoundsAsAttributesAndOperands) {
  const Imported old("agraph (float[4] x) => (float[4] y) { y = Clip <min = -1.0> (x) }", 10);
  EXPECT_EQ(old.last().number("min"), -1);
  EXPECT_FALSE(old.last().has("max"));
  const Imported young("agraph (float[4] x) => (float[4] y) <float m = {6}> { y = Clip (x, , m) }", 17);
  EXPECT_EQ(young.last().number("max"), 6);
  EXPECT_FALSE(young.last().has("min"));
  const Imported computed("agraph (float[4] x, float m) => (float[4] y) { y = Clip (x, m) }", 17);
  EXPECT_THAT(computed.ops(), ElementsAre("maximum"));
}

TEST(Translation, OperatorsOfLaterSetsAreReadByTheFirstThatHasThem) {
  const std::string text =
      "agraph (float[batch, 4] x) => (float[batch, 4] y) { y = Gelu <approximate = \"tanh\"> (x) }";
  EXPECT_THAT(Imported(text, 18).ops(), ElementsAre("gelu"));
  const auto wrong = import_graph("agraph (float[batch, 4] x) => (float[batch, 4] y) { y = Gelu <depth = 1> (x) }", 18);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.diagnostic().message, testing::HasSubstr("not a valid Gelu"));
}

TEST(Translation, HardSigmoidTakesNoGradientAtItsBounds) {
  const Imported graph("agraph (float[batch, 4] x) => (float[batch, 4] y) { y = HardSigmoid (x) }", 14);
  EXPECT_TRUE(graph.last().flag("strict"));
}

TEST(Translation, ReshapeKeepsZeroUnlessAllowed) {
  const Imported kept(
      "agraph (float[batch, 4] x) => (float[batch, 2, 2] y) <int64[3] s = {0, 2, -1}> { y = Reshape (x, s) }", 17);
  EXPECT_EQ(kept.output(), "f32[batch,2,2]");
  const Imported empty(
      "agraph (float[0, 4] x) => (float[0, 7] y) <int64[2] s = {0, 7}> { y = Reshape <allowzero = 1> (x, s) }", 17);
  EXPECT_EQ(empty.output(), "f32[0,7]");
}

TEST(Translation, ShapeArithmeticFolds) {
  const Imported model(
      "agraph (float[batch, 6, 4] x) => (float[batch, 6, 2, 2] y) <int64[1] two = {2}, int64 i = {0}, int64[1] zero = "
      "{0}> {\n"
      "  s = Shape (x)\n  b = Gather <axis = 0> (s, i)\n  u = Unsqueeze (b, zero)\n  t = Shape <start = 1, end = 2> "
      "(x)\n"
      "  r = Concat <axis = 0> (u, t, two, two)\n  y = Reshape (x, r)\n}",
      17);
  EXPECT_EQ(model.output(), "f32[batch,6,2,2]");
  EXPECT_EQ(model.last().list("shape") ? ir::str(*model.last().list("shape")) : "", "[batch,6,2,2]");
}

TEST(Translation, SplitForms) {
  const std::string head = "agraph (float[batch, 7] x) => (float[batch, 4] y, float[batch, 3] z) ";
  for (const Imported& model :
       {Imported(head + "{ y, z = Split <axis = 1, split = [4, 3]> (x) }", 12),
        Imported(head + "{ s = Constant <value_ints = [4, 3]> ()\n y, z = Split <axis = -1> (x, s) }", 13),
        Imported(head + "{ y, z = Split <axis = 1, num_outputs = 2> (x) }", 18)}) {
    EXPECT_THAT(model.ops(), ElementsAre("split"));
    EXPECT_EQ(model.output(0), "f32[batch,4]");
    EXPECT_EQ(model.output(1), "f32[batch,3]");
  }
}

TEST(Translation, SliceForms) {
  EXPECT_EQ(
      Imported(
          "agraph (float[batch, 9] x) => (float[batch, 3] y) { y = Slice <axes = [1], starts = [2], ends = [5]> (x) }",
          9)
          .output(),
      "f32[batch,3]");
  EXPECT_EQ(
      Imported(
          "agraph (float[batch, 9] x) => (float[batch, 4] y) <int64[1] s = {-2}, int64[1] e = {-9223372036854775807},"
          " int64[1] a = {-1}, int64[1] d = {-2}> { y = Slice (x, s, e, a, d) }",
          17)
          .output(),
      "f32[batch,4]");
}

TEST(Translation, DivisionOfIntegersTruncates) {
  const Imported model("agraph (int64[4] x, int64[4] z) => (int64[4] y) { y = Div (x, z) }", 17);
  EXPECT_EQ(model.last().text("rounding"), "trunc");
  const Imported floats("agraph (float[4] x, float[4] z) => (float[4] y) { y = Div (x, z) }", 17);
  EXPECT_FALSE(floats.last().has("rounding"));
}

TEST(Translation, BatchNormalizationMomentumIsTheOtherHalf) {
  const std::string head =
      "agraph (float[batch, 2, 3] x) => (float[batch, 2, 3] y) <float[2] s = {1, 1}, float[2] b = {0, 0},"
      " float[2] m = {0, 0}, float[2] v = {1, 1}> ";
  const Imported on(head + "{ y, rm, rv = BatchNormalization <training_mode = 1, momentum = 0.75> (x, s, b, m, v) }",
                    15);
  EXPECT_TRUE(on.last().flag("training"));
  EXPECT_EQ(on.last().number("momentum"), 0.25);
  EXPECT_EQ(on->outputs(TaskId(0)).size(), 3u);
  const Imported off(head + "{ y = BatchNormalization (x, s, b, m, v) }", 15);
  EXPECT_FALSE(off.last().flag("training"));
  EXPECT_EQ(off->outputs(TaskId(0)).size(), 1u);
  const Imported old(head + "{ y, rm, rv, sm, sv = BatchNormalization (x, s, b, m, v) }", 9);
  EXPECT_TRUE(old.last().flag("training"));
}

TEST(Translation, DropoutIsOffUnlessItSaysTraining) {
  const std::string head = "agraph (float[batch, 4] x) => (float[batch, 4] y) <float r = {0.25}, bool t = {1}> ";
  EXPECT_THAT(Imported(head + "{ y = Dropout (x, r) }", 17).ops(), ElementsAre("identity"));
  EXPECT_THAT(Imported(head + "{ y = Dropout <ratio = 0.5> (x) }", 10).ops(), ElementsAre("identity"));
  const Imported on(head + "{ z = Dropout (x, r, t)\n y = Dropout (z, r, t) }", 17);
  EXPECT_THAT(on.ops(), ElementsAre("mul", "mul"));
  ASSERT_TRUE(on.ok());
  const ir::RandomInput* const first = on->random_input(on->inputs(TaskId(0))[1]);
  const ir::RandomInput* const second = on->random_input(on->inputs(TaskId(1))[1]);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(*first, (ir::RandomInput{ir::RandomInput::Of::kBernoulli, 0.25, 0}));
  EXPECT_EQ(*second, (ir::RandomInput{ir::RandomInput::Of::kBernoulli, 0.25, 1}));
  EXPECT_EQ(on->type(on->inputs(TaskId(0))[1]), on->type(on->find("z")));
}

TEST(Translation, RandomNumbersAreDraws) {
  const std::string head = "agraph (float[batch, 4] x) => (";
  const Imported normal(head + "float[batch, 4] y) { y = RandomNormalLike <mean = 3.0, scale = 0.5> (x) }", 17);
  EXPECT_THAT(normal.ops(), ElementsAre("full", "mul", "full", "add"));
  ASSERT_TRUE(normal.ok());
  const ValueId drawn = normal->find("y.random");
  ASSERT_TRUE(drawn.valid());
  EXPECT_EQ(normal->random_input(drawn)->of, ir::RandomInput::Of::kNormal);
  EXPECT_EQ(normal->type(drawn), normal->type(normal->find("x")));
  const Imported chance(head + "bool[batch, 4] y) { y = Bernoulli <dtype = 9> (x) }", 17);
  EXPECT_THAT(chance.ops(), ElementsAre("lt", "cast"));
  ASSERT_TRUE(chance.ok());
  EXPECT_EQ(chance->random_input(chance->inputs(TaskId(0))[0])->of, ir::RandomInput::Of::kUniform);
  const auto integers = import_graph("agraph (int64[4] x) => (int64[4] y) { y = RandomUniformLike (x) }", 17);
  ASSERT_FALSE(integers.ok());
  EXPECT_THAT(integers.diagnostic().message, ::testing::HasSubstr("random numbers are floats"));
}

TEST(Translation, UniformNumbersStayBelowTheirBound) {
  const std::string head = "agraph (float[batch, 4] x) => (float[batch, 4] y) { y = RandomUniformLike ";
  const Imported zero(head + "<high = 10.0> (x) }", 17);
  EXPECT_THAT(zero.ops(), ElementsAre("full", "mul", "full", "add"));
  const Imported moved(head + "<low = 100.0, high = 110.0> (x) }", 17);
  EXPECT_THAT(moved.ops(), ElementsAre("full", "mul", "full", "add", "clamp"));
  EXPECT_EQ(static_cast<float>(moved.last().number("max")), std::nextafter(110.0F, 0.0F));
  const Imported none(head + "<low = -1.0, high = 0.0> (x) }", 17);
  EXPECT_LT(static_cast<float>(none.last().number("max")), 0.0F);
  const auto turned = import_graph(head + "<low = 2.0, high = 1.0> (x) }", 17);
  ASSERT_FALSE(turned.ok());
  EXPECT_THAT(turned.diagnostic().message, ::testing::HasSubstr("RandomUniformLike from 2 to 1; expected"));
}

TEST(Translation, MultinomialIsADrawAgainstSumsOfShares) {
  const Imported several("agraph (float[batch, 5] x) => (int32[batch, 3] y) { y = Multinomial <sample_size = 3> (x) }",
                         17);
  ASSERT_TRUE(several.ok());
  EXPECT_EQ(several.output(), "i32[batch,3]");
  const ValueId drawn = several->find("y.random");
  ASSERT_TRUE(drawn.valid());
  EXPECT_EQ(several->random_input(drawn)->of, ir::RandomInput::Of::kUniform);
  EXPECT_EQ(ir::str(*several->type(drawn).shape), "[batch,3]");
  EXPECT_EQ(several->type(drawn).batch.axis, 0);
  const auto refusal = [](const std::string& input, const std::string& attributes) {
    const auto graph =
        import_graph("agraph (" + input + " x) => (int32[m, n] y) { y = Multinomial <" + attributes + "> (x) }", 17);
    return graph.ok() ? "" : graph.diagnostic().message;
  };
  EXPECT_THAT(refusal("float[batch, 2, 5]", "dtype = 6"), ::testing::HasSubstr("expected [batch, classes]"));
  EXPECT_THAT(refusal("float[batch, 5]", "sample_size = 0"), ::testing::HasSubstr("expected at least 1"));
}

TEST(Translation, WindowsWithAutoPad) {
  const Imported model(
      "agraph (float[batch, 1, 5, 5] x) => (float[batch, 1, 3, 3] y) <float[1, 1, 3, 3] w = {1,2,3,4,5,6,7,8,9}> "
      "{ y = Conv <auto_pad = \"SAME_UPPER\", strides = [2, 2]> (x, w) }",
      17);
  EXPECT_EQ(model.output(), "f32[batch,1,3,3]");
  EXPECT_THAT(model.last().integers("pads"), ElementsAre(1, 1, 1, 1));
}

TEST(Translation, EntriesStandForOperatorsThatAreImported) {
  for (const ir::OpInfo& op : ir::core_ops()) {
    for (const std::string_view name : op.onnx) {
      bool found = has_subgraphs(name);
      for (int opset = 7; opset <= 27; ++opset) found = found || find_translator(name, opset) != nullptr;
      EXPECT_TRUE(found) << op.name << " stands for ONNX's " << name;
    }
  }
}

TEST(Translation, LocalFunctionsAreInlined) {
  const auto model = test::import_text(
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
      "agraph (float[batch, 4] x) => (float[batch, 4] y) { [outer] y = local.f <low = 0.5> (x) }\n"
      "<domain: \"local\", opset_import: [\"\" : 10, \"local\" : 1]> f <low> (p, q) => (r) { m = Clip <min : float = "
      "@low> (p)\n"
      " [g] r = local.g (m, q) }\n"
      "<domain: \"local\", opset_import: [\"\" : 17]> g (p, q) => (r) { r = Clip (p, q) }");
  ASSERT_TRUE(model.ok()) << model.diagnostic().str();
  EXPECT_THAT(ops(*model), ElementsAre("clamp", "identity"));
  EXPECT_EQ(model->attributes(TaskId(0)).number("min"), 0.5);
  EXPECT_TRUE(model->attributes(TaskId(1)).empty());  // q is left out by the caller, and by the caller's caller
  EXPECT_EQ(model->value(model->outputs()[0]).name, "y");
  EXPECT_TRUE(model->find("outer/m").valid());
  EXPECT_EQ(model->location(TaskId(1)).node, "outer/g/Clip r");
}

TEST(Translation, OperatorsThatOnnxDefinesByOthers) {
  const Imported model("agraph (float[batch, 4] x) => (float[batch, 4] y) { y = ThresholdedRelu <alpha = 2.0> (x) }",
                       22);
  EXPECT_EQ(model.output(), "f32[batch,4]");
  EXPECT_THAT(model.ops(), testing::Contains("where"));
}

TEST(Translation, LayerNormalizationWithStatisticsGoesByItsDefinition) {
  const Imported model(
      "agraph (float[batch, 4] x) => (float[batch, 4] y, float[batch, 1] m) <float[4] s = {1, 1, 1, 1}>"
      "{ y, m = LayerNormalization (x, s) }",
      17);
  EXPECT_EQ(model.output(0), "f32[batch,4]");
  EXPECT_EQ(model.output(1), "f32[batch,1]");
}

TEST(Translation, CrossEntropyIsASumOverACount) {
  const Imported model(
      "agraph (float[batch, 5] x, int64[batch] t) => (float y) { y = SoftmaxCrossEntropyLoss <ignore_index = -100> (x, "
      "t) }",
      17);
  EXPECT_THAT(model.ops(), ElementsAre("cross_entropy_sum", "full", "ne", "cast", "sum", "div"));
  EXPECT_EQ(model.output(), "f32[]");
}

// A mark that does not fit the labels' type would become a label when it is cast to it: 0.
TEST(Translation, CrossEntropyOfNarrowLabelsIgnoresNothingUnlessTold) {
  for (const std::string type : {"int32", "int64"}) {
    const auto model = test::import_graph(
        "agraph (float[batch, 5] x, " + type + "[batch] t) => (float y) { y = SoftmaxCrossEntropyLoss (x, t) }", 17);
    ASSERT_TRUE(model.ok()) << model.diagnostic().str();
    for (const TaskId task : model->tasks()) {
      const ir::Attributes& attributes = model->attributes(task);
      if (model->op(task).name == "core.full") {
        EXPECT_EQ(std::get<ir::Dim>(*attributes.find("value")), ir::Dim(INT64_MIN));
        EXPECT_EQ(model->type(model->outputs(task)[0]).dtype, ir::DType::kI64);
      }
      if (attributes.has("ignore_index")) {
        EXPECT_EQ(attributes.integer("ignore_index"), INT64_MIN);
      }
    }
  }
}

TEST(Translation, InitializersThatAreInputsToo) {
  const auto model = test::import_text(
      "<ir_version: 3, opset_import: [\"\" : 8]>\n"
      "agraph (float[batch, 2] x, float[2] w) => (float[batch, 2] y) <float[2] w = {1, 2}> { y = Add (x, w) }");
  ASSERT_TRUE(model.ok()) << model.diagnostic().str();
  EXPECT_EQ(model->inputs().size(), 1u);
  EXPECT_EQ(model->value(model->find("w")).kind, ir::ValueKind::kConstant);
}

TEST(Translation, TypedFieldsOfEveryElementType) {
  const std::vector<std::pair<std::string, uint64_t>> kTypes = {
      {"double", 8}, {"float", 4},  {"int8", 1},   {"int16", 2},  {"int32", 4}, {"int64", 8},
      {"uint8", 1},  {"uint16", 2}, {"uint32", 4}, {"uint64", 8}, {"bool", 1}};
  for (const auto& [type, size] : kTypes) {
    const Imported model("agraph (" + type + "[2] x, bool[2] c) => (" + type + "[2] y) <" + type +
                             "[2] w = {0, 1}> "
                             "{ y = Where (c, x, w) }",
                         17);
    ASSERT_TRUE(model.ok()) << type;
    const auto& data = model->value(model->find("w")).data;
    ASSERT_EQ(data.size(), 2 * size) << type;
    EXPECT_EQ(model->type(model->find("w")).contents.has_value(), type != "double" && type != "float") << type;
  }
}

}  // namespace
}  // namespace rannc::frontend
