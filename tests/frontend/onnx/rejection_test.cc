// What an invalid or unsupported model is told: the node, what was found, what was allowed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "onnx/onnx_pb.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using test::import_graph;
using test::import_text;
using testing::HasSubstr;

void expect_message(const Result<ir::Graph>& graph, const std::string& node, const std::string& part) {
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.diagnostic().where.node, HasSubstr(node)) << graph.diagnostic().str();
  EXPECT_THAT(graph.diagnostic().message, HasSubstr(part));
}

TEST(Rejection, UnknownOperatorsAreListedAllAtOnce) {
  const auto graph = import_graph(
      "agraph (float[N, 4] x) => (float[N, 4] y) {\n"
      "  [first] a = StringNormalizer (x)\n  [second] b = RegexFullMatch (x)\n  [third] c = StringNormalizer (x)\n  y "
      "= Sum (a, b, c)\n}",
      17);
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.diagnostic().message, HasSubstr("2 operators: RegexFullMatch, StringNormalizer"));
  ASSERT_EQ(graph.diagnostic().notes.size(), 3u);
  EXPECT_EQ(graph.diagnostic().notes[0].where.node, "second");
  EXPECT_EQ(graph.diagnostic().notes[1].where.node, "first");
  EXPECT_EQ(graph.diagnostic().notes[2].where.node, "third");
}

TEST(Rejection, WhatNoOutputNeedsIsLeftOut) {
  const auto read =
      frontend::read_onnx_bytes(test::onnx_bytes(test::onnx_model(
                                    "agraph (float[N, 4] x) => (float[N, 4] y) {\n"
                                    "  [unread] a = StringNormalizer (x)\n  [after] b = Relu (a)\n  y = Relu (x)\n}",
                                    17)),
                                "model.onnx", {});
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  EXPECT_EQ(read->graph.task_count(), 1U);
  ASSERT_EQ(read->notes.remarks.size(), 1U);
  EXPECT_THAT(read->notes.remarks[0].message, HasSubstr("2 nodes are excluded, as no output needs them"));
}

TEST(Rejection, AnOutputThatNobodyAsksForIsLeftOut) {
  const std::string model = test::onnx_bytes(
      test::onnx_model("agraph (float[N, 4] x) => (float[N, 4] y, float[N, 4] label) {\n"
                       "  shared = Relu (x)\n  [unknown] label = StringNormalizer (shared)\n  y = Exp (shared)\n}",
                       17));
  const auto read = [&](std::vector<std::string> required) {
    frontend::ImportOptions options;
    options.required = std::move(required);
    return frontend::read_onnx_bytes(model, "model.onnx", options);
  };
  const auto found = read({"y"});
  ASSERT_TRUE(found.ok()) << found.diagnostic().str();
  EXPECT_EQ(found->graph.outputs().size(), 1U);
  ASSERT_EQ(found->notes.open.size(), 1U);
  EXPECT_THAT(found->notes.open[0].message, HasSubstr("output label is excluded, as the loss does not read it"));
  EXPECT_FALSE(read({}).ok()) << "all are needed";
  EXPECT_FALSE(read({"label"}).ok());
  EXPECT_FALSE(read({"no such output"}).ok()) << "all are needed where the name is none of them";
}

// A name that a body reads is one that its node reads.
TEST(Rejection, WhatBodiesReadIsNeeded) {
  const auto read = import_graph(
      "agraph (float[N, 4] x, bool c) => (float[N, 4] y) {\n  [unread] a = StringNormalizer (x)\n  b = Relu (x)\n"
      "  y = If (c) <then_branch = t () => (float[N, 4] p) { p = Neg (b) }, else_branch = e () => (float[N, 4] q) "
      "{ q = Identity (b) }>\n}",
      17);
  EXPECT_TRUE(read.ok()) << read.diagnostic().str();
}

TEST(Rejection, InputsOfUnknownRankAreNamed) {
  expect_message(import_graph("agraph (float[N] a, float[] x) => (float[N] y) { [node] y = Add (a, x) }", 18), "x",
                 "input 'x' has no shape");
}

TEST(Rejection, InputsThatAreNoTensorsAreNamed) {
  expect_message(
      import_graph("agraph (seq(float[N]) x, int64 i) => (float[N] y) { y = SequenceAt (x, i) }", 18), "x",
      "input 'x' is a sequence, but only tensors are supported: export the model with an input for each tensor");
  expect_message(import_graph("agraph (optional(float[N]) x) => (float[N] y) { y = OptionalGetElement (x) }", 18), "x",
                 "input 'x' is an optional, but only tensors are supported");
}

TEST(Rejection, OffsetsOfBagsAreToldOf) {
  expect_message(import_graph("agraph (int64[batch] x) => (int64[n] y) <int64[1] end = {9}> {"
                              " [offsets] y = Concat <axis = 0> (x, end) }",
                              18),
                 "offsets", "offsets of an EmbeddingBag, use an Embedding and a reduction over the axis of the bag");
}

TEST(Rejection, LengthsThatAreDataAreNamed) {
  expect_message(import_graph("agraph (float n) => (float[k] y) <float zero = {0}, float one = {1}> {"
                              " [count] y = Range (zero, n, one) }",
                              18),
                 "count", "Range: 'n', its limit, must follow from constants and sizes");
}

/// A dimension is a number or an expression of symbols that inputs have: what has no name gets that of its place.
TEST(Rejection, DimensionsWithoutANameAreNamedAfterTheirPlace) {
  const auto graph = import_graph("agraph (float[?, ?] x) => (float[N] y) { y = Transpose (x) }", 18);
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(ir::str(*graph->type(graph->find("x")).shape), "[x_d0,x_d1]");
  EXPECT_EQ(ir::str(*graph->type(graph->find("y")).shape), "[x_d1,x_d0]");
}

TEST(Rejection, UnknownOperatorsInFunctionsNameTheCall) {
  const auto graph = import_text(
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
      "agraph (float[N, 4] x) => (float[N, 4] y) { [outer] y = local.f (x) }\n"
      "<domain: \"local\", opset_import: [\"\" : 17]> f (p) => (q) { [inner] q = RegexFullMatch (p) }");
  ASSERT_FALSE(graph.ok());
  ASSERT_EQ(graph.diagnostic().notes.size(), 1u);
  EXPECT_EQ(graph.diagnostic().notes[0].where.node, "outer/inner");
}

TEST(Rejection, OperatorsOfOtherDomainsCarryTheDomain) {
  const auto graph = import_text(
      "<ir_version: 8, opset_import: [\"\" : 17, \"com.example\" : 1]>\n"
      "agraph (float[N, 4] x) => (float[N, 4] y) { y = com.example.Fused (x) }");
  expect_message(graph, "", "com.example::Fused");
}

TEST(Rejection, FunctionsThatCallThemselves) {
  const auto graph = import_text(
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
      "agraph (float[N] x) => (float[N] y) { y = local.f (x) }\n"
      "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]> f (p) => (q) { q = local.g (p) }\n"
      "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]> g (p) => (q) { q = local.f (p) }");
  expect_message(graph, "", "calls itself");
}

/// Twenty functions that call the next one ten times each: 10^20 nodes from a few hundred bytes.
TEST(Rejection, FunctionsThatMultiply) {
  std::string text =
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
      "agraph (float[N] x) => (float[N] y) { y = local.f0 (x) }\n";
  for (int level = 0; level < 20; ++level) {
    text += "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]> f" + std::to_string(level) +
            " (v0) => (v10) {\n";
    for (int call = 0; call < 10; ++call) {
      const std::string callee = level == 19 ? "Relu" : "local.f" + std::to_string(level + 1);
      text += "  v" + std::to_string(call + 1) + " = " + callee + " (v" + std::to_string(call) + ")\n";
    }
    text += "}\n";
  }
  expect_message(import_text(text), "", "nodes after inlining");
}

/// Functions that call the next one twice or more each, the last of which has `last` for its body.
std::string multiplying(int functions, int calls, const std::string& last) {
  std::string text =
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
      "agraph (float[N] x) => (float[N] y) { y = local.f0 (x) }\n";
  for (int level = 0; level < functions; ++level) {
    text += "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]> f" + std::to_string(level);
    if (level + 1 == functions) return text + last;
    text += " (v0) => (v" + std::to_string(calls) + ") {\n";
    for (int call = 0; call < calls; ++call) {
      text += "  v" + std::to_string(call + 1) + " = local.f" + std::to_string(level + 1) + " (v" +
              std::to_string(call) + ")\n";
    }
    text += "}\n";
  }
  return text;
}

/// 2^17 tasks, which a file of less than two kilobytes may not become.
TEST(Rejection, FunctionsThatMakeMoreThanTheirFileMayBecome) {
  const std::string relu = " (v0) => (v1) { [leaf] v1 = Relu (v0) }";
  const auto graph = import_text(multiplying(18, 2, relu));
  expect_message(graph, "leaf", "function 'f17' brings the graph to ");
  EXPECT_THAT(graph.diagnostic().message, HasSubstr("bytes may become 40.0 MiB"));
  EXPECT_TRUE(import_text(multiplying(12, 2, relu)).ok());
}

/// They take time, and leave nothing.
TEST(Rejection, CallsOfFunctionsWithoutNodes) {
  expect_message(import_text(multiplying(20, 10, " (v0) => (v0) { }")), "", "nodes after inlining");
  expect_message(import_text(multiplying(20, 2, " (v0) => (v0) { }")), "", "brings the graph to 0 tasks");
}

TEST(Rejection, LoopsInLoopsThatMakeMoreThanTheirFileMayBecome) {
  const auto loops = [](int inner) {
    return "agraph (float[4] x) => (float[4] y) <int64 trips = {" + std::to_string(inner) +
           "}, bool on = {1}> { [outer] y = Loop (trips, on, x) <body = body (int64 i, bool c, float[4] a) => (bool d, "
           "float[4] e) { d = Identity (c)\n [inner] e = Loop (trips, on, a) <body = repeated (int64 j, bool f, "
           "float[4] g)"
           " => (bool h, float[4] k) { h = Identity (f)\n k = Relu (g) }> }> }";
  };
  EXPECT_TRUE(import_graph(loops(20), 17).ok());
  expect_message(import_graph(loops(1000), 17), "inner", "the Loop 'inner' brings the graph to ");
}

TEST(Rejection, OperatorSetsOutOfRange) {
  expect_message(import_graph("agraph (float[N] x) => (float[N] y) { y = Relu (x) }", 0), "", "operator set 0");
  expect_message(import_graph("agraph (float[N] x) => (float[N] y) { y = Relu (x) }", 28), "", "operator set 28");
}

TEST(Rejection, ValuesReadBeforeTheyAreMade) {
  expect_message(import_graph("agraph (float[N] x) => (float[N] y) { [late] y = Relu (z)\n z = Relu (y) }", 17), "late",
                 "'z' is read, but nothing before defines it");
  expect_message(import_graph("agraph (float[N] x) => (float[N] y, float[N] q) { y = Relu (x) }", 17), "q",
                 "nothing before defines it");
}

TEST(Rejection, ValuesMadeTwice) {
  expect_message(import_graph("agraph (float[N] x) => (float[N] y) { y = Relu (x)\n [again] y = Relu (x) }", 17),
                 "again", "'y' is defined twice");
}

TEST(Rejection, OutputsThatCarryNothingHere) {
  const auto graph = import_graph(
      "agraph (float[N, 4] x) => (float[N, 4] y, float[4] m) <float[4] s = {1, 1, 1, 1}>"
      "{ [norm] y, m, v, a, b = BatchNormalization (x, s, s, s, s) }",
      9);
  expect_message(graph, "m", "not supported");
}

TEST(Rejection, AttributesAgainstTheSchema) {
  expect_message(import_graph("agraph (float[N, 4] x) => (float[N, 4] y) { [n] y = Softmax <axes = 1> (x) }", 17), "n",
                 "Unrecognized attribute: axes");
  expect_message(import_graph("agraph (float[N, 4] x) => (float[N, 4] y) { [n] y = Softmax <axis = 1.5> (x) }", 17),
                 "n", "not a valid Softmax");
  expect_message(import_graph("agraph (float[N, 4] x) => (float[N, 4] y) { [n] y = Relu (x, x) }", 17), "n",
                 "not a valid Relu");
}

TEST(Rejection, TypesThatDoNotFit) {
  expect_message(import_graph("agraph (float[N, 4] x, int64[N, 4] i) => (float[N, 4] y) { [n] y = Add (x, i) }", 17),
                 "n", "f32");
  expect_message(import_graph("agraph (float[N, 4] x, float[N, 3] i) => (float[N, 4] y) { [n] y = Add (x, i) }", 17),
                 "n", "broadcast");
}

TEST(Rejection, AxesOutsideOfTheRank) {
  expect_message(import_graph("agraph (float[N, 4] x) => (float[N, 4] y) { [n] y = Softmax <axis = 2> (x) }", 17), "n",
                 "axis 2 is outside of [-2, 1]");
}

/// Tables that a few bytes ask for.
TEST(Rejection, TablesOfGigabytes) {
  expect_message(
      import_graph(
          "agraph (float[1, 1, 15, 3] x, float[1, 1, 2, 2] w, float[1, 8, 2, 1048576] o) => (float[1, 1, 2, n] y) {"
          " [n] y = DeformConv <kernel_shape = [2, 2]> (x, w, o) }",
          22),
      "n", "more than 1048576 positions");
  expect_message(
      import_graph("agraph () => (float[r, c] y) <int64 bins = {65536}, int64 length = {65536}, int64 rate = {16000},"
                   " float low = {0.0}, float high = {8000.0}> {"
                   " [n] y = MelWeightMatrix (bins, length, rate, low, high) }",
                   17),
      "n", "at most 2097152 are supported");
}

TEST(Rejection, WordsThatAnOperatorDoesNotKnow) {
  expect_message(import_graph("agraph (float[N, 1, 4, 4] x, float[N, 3, 3, 2] at) => (float[N, 1, 3, 3] y) {"
                              " [n] y = GridSample <padding_mode = \"bordure\"> (x, at) }",
                              20),
                 "n", "attribute padding of core.grid_sample must be");
}

/// A few bytes that ask for eight million tasks.
TEST(Rejection, SequencesOfMillions) {
  expect_message(import_graph("agraph (float[2, 16777216] x) => (int64 n) <int64 two = {2}> {"
                              " [cut] p = SplitToSequence <axis = 1> (x, two)\n n = SequenceLength (p) }",
                              17),
                 "cut", "at most 8192 parts are supported");
}

TEST(Rejection, ZeroPointsOfAnotherShapeThanTheirScale) {
  for (const std::string zero : {"int8 z = {1}", "int8[4] z = {1, 1, 1, 1}", "int8[2, 3] z = {1, 1, 1, 1, 1, 1}"}) {
    expect_message(import_graph("agraph (int8[4, 4] x) => (float[4, 4] y) <float[2, 4] s = {1, 1, 1, 1, 1, 1, 1, 1}, " +
                                    zero + "> { [n] y = DequantizeLinear <axis = 0, block_size = 2> (x, s, z) }",
                                21),
                   "n", ", but the scale has [2,4]");
  }
}

TEST(Rejection, RegionsThatAreNoFloats) {
  expect_message(
      import_graph(
          "agraph (float[1, 2, 10, 10] x, int8[3, 4] r, int64[3] b) => (float[3, 2, 5, 5] y) {"
          " [n] y = RoiAlign <mode = \"max\", output_height = 5, output_width = 5, sampling_ratio = 2> (x, r, b) }",
          22),
      "n", "");
}

/// No sum of sizes overflows on the way: the sanitizers' preset would say so.
TEST(Rejection, AxesOfTheLargestInteger) {
  const auto graph = import_graph(
      "agraph (float[N, 4, 9223372036854775807, 6] x) => (float[N, 4, a, b] y) {"
      " [n] y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], auto_pad = \"SAME_UPPER\"> (x) }",
      22);
  EXPECT_TRUE(graph.ok() || graph.diagnostic().where.node == "n");
}

TEST(Rejection, SamplesOnAnAxisOfAnotherSize) {
  expect_message(import_graph("agraph (float[N, 5] x, int64[3, 1] i) => (float[3, 1] y) {"
                              " [n] y = GatherElements <axis = 1> (x, i) }",
                              13),
                 "n", "indices has no samples on the axis where x has them");
}

TEST(Rejection, AxesOfScalars) {
  for (const std::string op : {"ReduceMax", "ReduceMin", "ReduceMean", "ReduceLogSumExp"}) {
    expect_message(import_graph("agraph (int32 x) => (int32 y) { [n] y = " + op + " <axes = [-1]> (x) }", 13), "n",
                   "axis -1 is outside of [0, -1]");
  }
}

TEST(Rejection, TensorsWhoseDataDoesNotFit) {
  expect_message(import_graph("agraph (float[4] x) => (float[4] y) <float[5] w = {1, 2}> { y = Add (x, w) }", 17), "w",
                 "tensor 'w' has 8 bytes of data, its type and shape need 20");
}

TEST(Rejection, TensorsWithDataInSeveralFields) {
  using Change = std::function<void(ONNX_NAMESPACE::TensorProto&)>;
  const auto read = [](const Change& change, size_t count) -> Result<Imported> {
    const std::string graph = fmt::format("agraph (float[{0}] x) => (float[{0}] y) {{ y = Add (x, w) }}", count);
    ONNX_NAMESPACE::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(test::onnx_bytes(test::onnx_model(graph, 17))));
    auto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(ONNX_NAMESPACE::TensorProto::FLOAT);
    tensor.add_dims(static_cast<int64_t>(count));
    tensor.set_raw_data(std::string(count * sizeof(float), '\0'));
    change(tensor);
    return frontend::read_onnx_bytes(model.SerializeAsString(), "model.onnx", {});
  };
  for (const size_t count : {4, 400}) {  // the latter stays in the file
    EXPECT_TRUE(read([](auto&) {}, count).ok());
    const auto floats = read([](auto& tensor) { tensor.add_float_data(1); }, count);
    ASSERT_FALSE(floats.ok());
    EXPECT_THAT(floats.diagnostic().str(),
                HasSubstr("tensor 'w' has its data in several fields, which may differ: raw_data, float_data"));
    const auto others = read([](auto& tensor) { tensor.add_int64_data(1); }, count);
    ASSERT_FALSE(others.ok());
    EXPECT_THAT(others.diagnostic().message, HasSubstr("raw_data, int64_data"));
  }
}

TEST(Rejection, OutputsThatAreDeclaredAsOtherTypes) {
  expect_message(import_graph("agraph (float[N, 4] x) => (double[N, 4] y) { y = Relu (x) }", 17), "y",
                 "output 'y' is declared with elements f64, but the nodes compute f32");
  expect_message(import_graph("agraph (float[N, 4] x) => (float[N, 5] y) { y = Relu (x) }", 17), "y",
                 "output 'y' is declared with extent 5 on axis 1, but the nodes compute [N,4]");
  for (const char* fits : {"float[N, 4]", "float[4, N]", "float[M, K]", "float[3, 4]", "float[N, 0]"}) {
    EXPECT_TRUE(import_graph(fmt::format("agraph (float[N, 4] x) => ({} y) {{ y = Relu (x) }}", fits), 17).ok())
        << fits;
  }
  const auto rank = frontend::read_onnx_bytes(
      test::onnx_bytes(test::onnx_model("agraph (float[N, 4] x) => (float[N] y) { y = Relu (x) }", 17)), "model.onnx",
      {});
  ASSERT_TRUE(rank.ok()) << "published files have it";
  ASSERT_EQ(rank->notes.warnings.size(), 1U);
  EXPECT_EQ(rank->notes.warnings[0].message, "output 'y' is declared with 1 axes, but the nodes compute [N,4]");
}

TEST(Rejection, UnsupportedElementTypes) {
  expect_message(import_graph("agraph (string[4] x) => (string[4] y) { y = Identity (x) }", 17), "x", "STRING");
  expect_message(import_graph("agraph (float[4] x) => (complex64[4] y) { [n] y = Cast <to = 14> (x) }", 17), "n",
                 "COMPLEX64");
}

TEST(Rejection, FilesThatAreNoModels) {
  const auto message = [](std::string_view bytes) {
    const auto graph = import_onnx_bytes(bytes, "x.onnx");
    return graph.ok() ? std::string() : graph.diagnostic().message;
  };
  EXPECT_THAT(message("This is not a model"), HasSubstr("not an ONNX model"));
  EXPECT_THAT(message(""), HasSubstr("not an ONNX model"));
  EXPECT_THAT(message(std::string("\x3a\xff\xff\xff\xff\x0f", 6)), HasSubstr("ends too early at byte 6"));
  const auto missing = import_onnx("/nonexistent/model.onnx");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.diagnostic().str(), HasSubstr("/nonexistent/model.onnx"));
  const auto folder = import_onnx("/");
  ASSERT_FALSE(folder.ok());
  EXPECT_THAT(folder.diagnostic().message, HasSubstr("not a regular file"));
}

TEST(Rejection, FilesBeyondTheLimit) {
  ImportOptions options;
  options.max_file_bytes = 10;
  const auto graph = import_graph("agraph (float[N] x) => (float[N] y) { y = Relu (x) }", 17, options);
  expect_message(graph, "", "at most 10 are read");
}

}  // namespace
}  // namespace rannc::frontend
