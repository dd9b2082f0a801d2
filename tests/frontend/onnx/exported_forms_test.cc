// Forms that exporters write and that a textbook graph does not have; tests/README.md lists where the others are
// tested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "ir/verify.h"
#include "onnx/onnx_pb.h"
#include "tests/frontend/support/samples_apart.h"

namespace rannc::test {
namespace {

using ONNX_NAMESPACE::ModelProto;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kStored =
    "int64 zero = {0}, int64 one = {1}, int64[1] none = {0}, int64[1] single = {1}, int64[1] four = {4}, "
    "int64[1, 4] columns = {3, 1, 1, 0}, int64[1] flat = {-1}";

// --- rows that a sample fetches by its own number

std::string fetching(const std::string& nodes) {
  return "agraph (float[batch, 4] x, float a) => (float[batch, 4] y) <" + kStored +
         "> { s = Mul (x, a)\n sizes = Shape (x)\n samples = Gather <axis = 0> (sizes, zero)\n"
         "numbers = Range (zero, samples, one)\n rows = Unsqueeze (numbers, single)\n" +
         nodes + " }";
}

TEST(ExportedForms, IndicesWithNumbersOfSamples) {
  const std::string graph = fetching(
      "more = Unsqueeze (samples, none)\n shape = Concat <axis = 0> (more, four)\n r = Expand (rows, shape)\n"
      "c = Expand (columns, shape)\n last = Constant <value_ints = [2]> ()\n r3 = Unsqueeze (r, last)\n c3 = Unsqueeze "
      "(c, last)\n"
      "places = Concat <axis = 2> (r3, c3)\n y = GatherND (s, places)");
  EXPECT_EQ(fault_of_samples(graph, 18, {{"x", spread(12)}, {"a", {1.5}}}, 1), "");
}

TEST(ExportedForms, PlacesInAllSamplesOneBehindAnother) {
  const std::string graph = fetching(
      "starts = Mul (rows, four)\n places = Add (starts, columns)\n all = Reshape (s, flat)\n y = Gather <axis = 0> "
      "(all, places)");
  EXPECT_EQ(fault_of_samples(graph, 18, {{"x", spread(12)}, {"a", {1.5}}}, 1), "");
}

// --- attention that is written out

/// Both operands are scaled by the root; what a softmax makes of a row of -inf is put to zero.
std::string attention(const std::string& masked) {
  return "agraph (float[batch, 3, 4] x, bool[batch, 3, 3] m, float root) => (float[batch, 3, 4] y) <float zero = {0}, "
         "float least = "
         "{-3.4028234663852886e38}> { q = Mul (x, root)\n t = Transpose <perm = [0, 2, 1]> (x)\n k = Mul (t, root)\n"
         "l = MatMul (q, k)\n never = Log (zero)\n bias = Where (m, zero, " +
         masked +
         ")\n s = Add (l, bias)\n p = Softmax <axis = -1> (s)\n bad = IsNaN (p)\n w = Where (bad, zero, p)\n y = "
         "MatMul (w, x) }";
}

TEST(ExportedForms, AttentionInParts) {
  Numbers inputs = {{"x", spread(36)}, {"m", std::vector<double>(27, 1)}, {"root", {0.7}}};
  for (const size_t hidden : {0, 4, 5, 20}) inputs["m"][hidden] = 0;
  for (const char* const masked : {"never", "least"})
    EXPECT_EQ(fault_of_samples(attention(masked), 18, inputs, 1), "") << masked;
}

TEST(ExportedForms, ARowOfWhichAllIsMaskedIsZero) {
  Numbers inputs = {{"x", spread(12)}, {"m", {1, 1, 1, 0, 0, 0, 1, 0, 1}}, {"root", {0.7}}};
  const auto run = run_onnx(attention("never"), 18, inputs);
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  const std::vector<double>& rows = run->numbers[0];
  EXPECT_THAT(std::vector<double>(rows.begin() + 4, rows.begin() + 8), Each(0));
  EXPECT_THAT(rows, Each(testing::Le(1)));
  EXPECT_NE(rows[0], 0);
}

// --- dimensions

ModelProto model_of(const std::string& graph) {
  ModelProto model;
  EXPECT_TRUE(model.ParseFromString(onnx_bytes(onnx_model(graph, 18))));
  return model;
}

Result<ir::Graph> imported(const ModelProto& model) {
  return frontend::import_onnx_bytes(model.SerializeAsString(), "test.onnx");
}

TEST(ExportedForms, DimensionsAreNamesInventedNamesAndExpressions) {
  ModelProto model = model_of(
      "agraph (float[s70, s53] a, float[s43, s53] b, float[e0, e1] c) => (float[o] y, float[p] z) "
      "<int64[1] flat = {-1}> { m = Mul (a, b)\n y = Reshape (m, flat)\n z = Relu (c) }");
  auto* const expressions =
      model.mutable_graph()->mutable_input(2)->mutable_type()->mutable_tensor_type()->mutable_shape();
  expressions->mutable_dim(0)->set_dim_param("s70*s53");
  expressions->mutable_dim(1)->set_dim_param("((s43*s53)//s53)");
  const auto graph = imported(model);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(graph->batch_symbol(), "s70");
  const auto shape = [&](const char* name) { return ir::str(*graph->type(graph->find(name)).shape); };
  EXPECT_EQ(shape("b"), "[s70,s53]") << "two names of one axis";
  EXPECT_EQ(shape("y"), "[s53*s70]");
  EXPECT_EQ(shape("z"), "[s53*s70,s70]");
}

TEST(ExportedForms, SlicesToTheLastNumberThereIs) {
  const std::string graph =
      "agraph (float[batch, 4] x) => (float[batch, 3] y, float[batch, 4] z) <int64[1] s = {1}, int64[1] e = "
      "{9223372036854775807}, "
      "int64[1] f = {-9223372036854775808}, int64[1] axis = {1}, int64[1] back = {-1}> "
      "{ y = Slice (x, s, e, axis)\n z = Slice (x, e, f, axis, back) }";
  const auto run = run_onnx(graph, 18, {{"x", {1, 2, 3, 4, 5, 6, 7, 8}}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  EXPECT_THAT(run->numbers[0], ElementsAre(2, 3, 4, 6, 7, 8));
  EXPECT_THAT(run->numbers[1], ElementsAre(4, 3, 2, 1, 8, 7, 6, 5));
}

// --- sizes by way of floats

// As exporters write a table's side, and sizes that are rounded up to a multiple.
TEST(ExportedForms, SizesAreRootsAndAreRoundedUp) {
  const std::string graph =
      "agraph (float[batch, 6, 5] x, float[16, 3] table) => (float[batch, 3, 2, 5] y, float[4, 4, 3] z) <float cells = "
      "{16}, float half = {0.5}, float two = {2}, int64 one = {1}, int64 pair = {2}, int64[1] zero = {0}, int64[1] all "
      "= {-1}, int64[1] five = {5}, int64[1] three = {3}> { n = Shape <start = 0, end = 1> (x)\n sizes = Shape (x)\n"
      "rows = Gather (sizes, one)\n r = Cast <to = 1> (rows)\n q = Div (r, two)\n up = Ceil (q)\n m = Mul (up, two)\n"
      "whole = Cast <to = 7> (m)\n h = Div (whole, pair)\n i = Cast <to = 7> (h)\n j = Unsqueeze (i, zero)\n"
      "to = Concat <axis = 0> (n, j, all, five)\n y = Reshape (x, to)\n root = Pow (cells, half)\n"
      "side = Cast <to = 7> (root)\n s = Unsqueeze (side, zero)\n square = Concat <axis = 0> (s, s, three)\n"
      "z = Reshape (table, square) }";
  const auto run = run_onnx(graph, 18, {{"x", spread(60)}, {"table", spread(48)}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  EXPECT_EQ(ir::str(*run->graph.type(run->graph.outputs()[0]).shape), "[batch,3,2,5]");
  EXPECT_EQ(ir::str(*run->graph.type(run->graph.outputs()[1]).shape), "[4,4,3]");
}

TEST(ExportedForms, SizesAreSymbolsThroughFloatsToo) {
  const auto length = [](const std::string& computed) {
    const auto graph = import_graph(
        "agraph (float[batch, seq] x) => (int64[n] y) <float two = {2}, float half = {0.5}, float three = {3}, int64 "
        "zero = {0}, int64 one = {1}> { sizes = Shape (x)\n length = Gather (sizes, one)\n r = Cast <to = 1> "
        "(length)\n" +
            computed + "\n n = Cast <to = 7> (f)\n y = Range (zero, n, one) }",
        18);
    return graph.ok() ? ir::str(*graph->type(graph->outputs()[0]).shape) : graph.diagnostic().message;
  };
  EXPECT_EQ(length("q = Div (r, two)\n u = Ceil (q)\n f = Mul (u, two)"), "[2*floor((seq + 1)/(2))]");
  EXPECT_EQ(length("q = Mul (r, half)\n p = Mul (three, half)\n k = Ceil (p)\n f = Add (q, k)"),
            "[floor((seq)/(2)) + 2]");
  EXPECT_THAT(length("q = Div (r, three)\n p = Div (r, two)\n f = Add (q, p)"), HasSubstr("Range"));
  EXPECT_THAT(length("f = Mul (r, r)"), HasSubstr("Range"));
}

// Detectors count the cells of a grid in floats.
TEST(ExportedForms, RangesOfFloatsCountSizes) {
  const auto run = [](const std::string& start, const std::string& delta, const std::string& limit) {
    return run_onnx("agraph (float[batch, seq] x) => (float[n] y) <int64 one = {1}, float two = {2}, float start = {" +
                        start + "}, float delta = {" + delta +
                        "}> { sizes = Shape (x)\n length = Gather (sizes, one)\n r = Cast <to = 1> (length)\n" + limit +
                        "\n y = Range (start, limit, delta) }",
                    18, {{"x", spread(10)}});
  };
  const auto numbers = [&](const std::string& start, const std::string& delta, const std::string& limit) {
    const auto made = run(start, delta, limit);
    EXPECT_TRUE(made.ok()) << made.diagnostic().str();
    return made.ok() ? made->numbers[0] : std::vector<double>();
  };
  EXPECT_THAT(numbers("0", "1", "limit = Identity (r)"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(numbers("1", "2", "limit = Identity (r)"), ElementsAre(1, 3));
  EXPECT_THAT(numbers("0", "1", "h = Div (r, two)\n limit = Ceil (h)"), ElementsAre(0, 1, 2));
  const auto half = run("0", "1", "limit = Div (r, two)");  // 2.5 is no size
  ASSERT_FALSE(half.ok());
  EXPECT_THAT(half.diagnostic().message, HasSubstr("'limit', its limit, must follow"));
}

// Neighbours along an axis whose length is a symbol are those along one of five.
TEST(ExportedForms, NeighboursOfAnAxisOfAnyLength) {
  for (const char* const place : {"asymmetric", "half_pixel", "tf_half_pixel_for_nn"}) {
    for (const char* const nearest : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}) {
      for (const char* const scale : {"0.5", "0.75", "1.5", "3"}) {
        const auto resized = [&](const std::string& length) {
          return run_onnx("agraph (float[batch, 1, " + length + "] x) => (float[batch, 1, n] y) <float[3] s = {1, 1, " +
                              scale + "}, float[0] e = {}> { y = Resize <coordinate_transformation_mode = \"" + place +
                              "\", nearest_mode = \"" + nearest + "\"> (x, e, s) }",
                          11, {{"x", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}});
        };
        const auto any = resized("seq"), five = resized("5");
        ASSERT_TRUE(any.ok()) << any.diagnostic().str();
        ASSERT_TRUE(five.ok()) << five.diagnostic().str();
        EXPECT_EQ(any->numbers[0], five->numbers[0]) << place << " " << nearest << " " << scale;
      }
    }
  }
}

// --- places of maxima in all samples one behind another

/// Maxima put back where they were, as torch.onnx.export writes MaxUnpool2d with dynamo=True.
std::string unpooled(const std::string& plane, const std::string& written) {
  return "agraph (float[batch, 2, 4, 4] x, float a) => (float[batch, 2, 4, 4] y) <int64 zero = {0}, int64 one = {1}, "
         "int64 cells = {" +
         plane +
         "}, int64 channels = {2}, int64[1] flat = {-1}, int64[4] planes = {-1, 2, 1, 1}, int64[2] starts = {0, 0}, "
         "int64[2] ends = {1, 1}, int64[2] axes = {2, 3}, int64[3] rest = {2, 4, 4}, int64[4] image = {-1, 2, 4, 4}> {"
         "s = Mul (x, a)\n n = Shape <start = 0, end = 1> (x)\n samples = Squeeze (n)\n"
         "m, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (s)\n own, j = MaxPool <kernel_shape = [1, 1]> (s)\n"
         "first = Slice (j, starts, ends, axes)\n at = Sub (i, first)\n k = Mul (samples, channels)\n"
         "numbers = Range (zero, k, one)\n each = Reshape (numbers, planes)\n before = Mul (each, cells)\n"
         "all = Add (at, before)\n places = Reshape (all, flat)\n sizes = Concat <axis = 0> (n, rest)\n"
         "zeros = ConstantOfShape (sizes)\n into = Reshape (zeros, flat)\n from = Reshape (m, flat)\n" +
         written + "\n y = Reshape (w, image) }";
}

TEST(ExportedForms, MaximaArePutBackThroughOneAxisOfAllSamples) {
  const Numbers inputs = {{"x", spread(96)}, {"a", {1.5}}};
  EXPECT_EQ(fault_of_samples(unpooled("16", "tuples = Unsqueeze (places, flat)\n w = ScatterND (into, tuples, from)"),
                             18, inputs, 1),
            "");
  EXPECT_EQ(fault_of_samples(unpooled("16", "w = ScatterElements (into, places, from)"), 18, inputs, 1), "");
  EXPECT_EQ(
      fault_of_samples(unpooled("16", "w = ScatterElements <reduction = \"add\"> (into, places, from)"), 18, inputs, 1),
      "");
  EXPECT_THAT(fault_of_samples(unpooled("8", "w = ScatterElements (into, places, from)"), 18, inputs, 1),
              HasSubstr("not provably each sample's own index"));
}

TEST(ExportedForms, ElementsArePickedFromOneAxisOfAllSamples) {
  const std::string graph = fetching(
      "starts = Mul (rows, four)\n places = Add (starts, columns)\n at = Reshape (places, flat)\n all = Reshape (s, "
      "flat)\n picked = GatherElements (all, at)\n wide = Constant <value_ints = [-1, 4]> ()\n y = Reshape (picked, "
      "wide)");
  EXPECT_EQ(fault_of_samples(graph, 18, {{"x", spread(12)}, {"a", {1.5}}}, 1), "");
}

// --- names, and what is beside a graph

TEST(ExportedForms, NamesOfAnySortAndMetadataOfAnySize) {
  ModelProto model = model_of(
      "agraph (float[batch, 4] x) => (float[batch, 4] y) <float[4] w = {1, 2, 3, 4}> { h = Mul (x, w)\n y = Relu (h) "
      "}");
  auto& graph = *model.mutable_graph();
  graph.mutable_input(0)->set_name("input.1");
  graph.mutable_initializer(0)->set_name("onnx::Mul_7");
  graph.mutable_output(0)->set_name("/out/Relu_output_0:0");
  auto& mul = *graph.mutable_node(0);
  mul.set_name("/encoder/layer.0/Mul \"quoted\"\n");
  mul.set_input(0, "input.1");
  mul.set_input(1, "onnx::Mul_7");
  graph.mutable_node(1)->clear_name();
  graph.mutable_node(1)->set_output(0, "/out/Relu_output_0:0");
  auto* const trace = mul.add_metadata_props();
  trace->set_key("pkg.torch.onnx.stack_trace");
  trace->set_value("File \"model.py\", line 3, in forward\n    return x * self.w\n" + std::string(1 << 16, '%'));
  const auto found = imported(model);
  ASSERT_TRUE(found.ok()) << found.diagnostic().str();
  EXPECT_EQ(found->location(TaskId(0)).node, "/encoder/layer.0/Mul \"quoted\"\\x0a");
  EXPECT_EQ(found->location(TaskId(1)).node, "Relu /out/Relu_output_0:0");
  for (const char* const name : {"input.1", "onnx::Mul_7", "h", "/out/Relu_output_0:0"})
    EXPECT_TRUE(found->find(name).valid()) << name;
  const std::string text = ir::print(*found);
  const auto again = ir::parse_graph(text, "test.rir");
  ASSERT_TRUE(again.ok()) << again.diagnostic().str();
  EXPECT_EQ(ir::print(*again), text);
  EXPECT_LT(text.size(), size_t{1} << 12) << "stack traces stay in the file";
}

TEST(ExportedForms, OutputsThatNobodyReadsAndOutputsMoreThanAsked) {
  const auto run = run_onnx(
      "agraph (float[batch, 4] x) => (float[batch, 4] y, float[batch, 2] left, float[batch, 4] x) "
      "{ two = Constant <value_ints = [2]> ()\n left, right = Split <axis = 1, num_outputs = 2> (x)\n"
      "v, place = TopK <axis = 1> (x, two)\n y = Relu (x) }",
      18, {{"x", {-1, 2, 3, 4}}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  EXPECT_THAT(run->numbers[0], ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(run->numbers[1], ElementsAre(-1, 2));
  EXPECT_THAT(run->numbers[2], ElementsAre(-1, 2, 3, 4)) << "an input that is given out as it is";
}

// --- half precision

TEST(ExportedForms, HalfPrecisionIsThatOfTheFile) {
  const std::string graph =
      "agraph (float[batch, 2] x) => (float[batch, 2] y, float16[batch, 2] h) <float[2, 2] w = {1, 0, 0, 1}, float "
      "tiny = {2e-4}> "
      "{ g = Cast <to = 10> (x)\n v = Cast <to = 10> (w)\n small = Cast <to = 10> (tiny)\n p = MatMul (g, v)\n h = Add "
      "(p, small)\n"
      "y = Cast <to = 1> (h) }";
  const auto run = run_onnx(graph, 18, {{"x", {1, 2048, 0.25, 3}}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  EXPECT_EQ(run->outputs[1].type.dtype, ir::DType::kF16);
  EXPECT_THAT(run->numbers[0], ElementsAre(1, 2048, 0.25 + 0x1p-12, 3)) << "float16 has 11 bits";
}

TEST(ExportedForms, AScaleOfAnotherFloatTypeIsRefusedByName) {
  const auto mixed = import_graph(
      "agraph (float16[batch, 4] x, float[4] s, float[4] b) => (float16[batch, 4] y) { [norm] y = LayerNormalization "
      "(x, s, b) }",
      17);
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.diagnostic().where.node, "norm");
  EXPECT_THAT(mixed.diagnostic().message, HasSubstr("operand 0 is f16, operand 1 is f32"));
}

}  // namespace
}  // namespace rannc::test
