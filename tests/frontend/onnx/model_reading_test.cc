// What a user says of a model's inputs, and what files write in other ways than ONNX's text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/symbols.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::vector<std::string> operators(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) names.push_back(graph.op(task).name.substr(5));
  return names;
}

/// `x [batch,2]`.
std::vector<std::string> inputs(const ir::Graph& graph) {
  std::vector<std::string> found;
  for (const ValueId input : graph.inputs())
    found.push_back(std::string(graph.value(input).name) + " " + ir::str(*graph.type(input).shape));
  return found;
}

Result<Imported> with_values(std::string_view graph, const std::map<std::string, double>& values) {
  ImportOptions options;
  options.input_values = values;
  return read_onnx_bytes(test::onnx_bytes(test::onnx_model(graph, 17)), "model.onnx", options);
}

/// A decoder in miniature: with a past it reads the past, without one it does not.
constexpr std::string_view kMerged = R"(agraph (float[batch, seq] x, float[batch, "past + seq"] mask,
    float[batch, past] old, bool[1] use) => (float[batch, seq] y, float[batch, total] kept) {
  off = Not (use)
  stretched = Relu (old)
  y, kept = If (off) <then_branch = one () => (float[batch, seq] a, float[batch, seq] b) { a = Add (x, mask)
                                                                              b = Tanh (x) },
    else_branch = two () => (float[batch, seq] c, float[batch, total] d) { d = Concat <axis = 1> (stretched, x)
                                                                 e = Add (d, mask)
                                                                 c = Tanh (x) }>
})";

TEST(InputValues, DecideABranchAndTakeTheInputsOfTheOther) {
  const auto without = with_values(kMerged, {{"use", 0}});
  ASSERT_TRUE(without.ok()) << without.diagnostic().str();
  EXPECT_THAT(inputs(without->graph), ElementsAre("x [batch,seq]", "mask [batch,seq]"));
  EXPECT_THAT(ir::verify(without->graph), ::testing::IsEmpty());
  const auto with = with_values(kMerged, {{"use", 1}});
  ASSERT_TRUE(with.ok()) << with.diagnostic().str();
  EXPECT_THAT(inputs(with->graph), ElementsAre("x [batch,seq]", "mask [batch,past + seq]", "old [batch,past]"));
}

TEST(InputValues, AreOfInputsOfOneElement) {
  EXPECT_THAT(with_values(kMerged, {{"flag", 0}}).diagnostic().str(),
              AllOf(HasSubstr("'flag', which is no input"), HasSubstr("'use'")));
  EXPECT_THAT(with_values(kMerged, {{"x", 0}}).diagnostic().str(), HasSubstr("input 'x' is f32 [batch,seq]"));
  EXPECT_THAT(with_values(kMerged, {{"use", 2}}).diagnostic().str(), HasSubstr("input 'use' is bool [1]"));
}

TEST(InputValues, ANumberIsAConstantOfTheCode) {
  const auto read = with_values("agraph (float[batch, 2] x, float scale) => (float[batch, 2] y) { y = Mul (x, scale) }",
                                {{"scale", 0.5}});
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  EXPECT_THAT(inputs(read->graph), ElementsAre("x [batch,2]"));
  EXPECT_TRUE(read->notes.stored.literals.contains("scale"));
}

TEST(SameSymbols, AreOneHoweverManyAreSaid) {
  std::map<std::string, std::string> same;
  unite_symbols(same, "a", "b");
  unite_symbols(same, "a", "c");
  unite_symbols(same, "d", "a");
  EXPECT_THAT(same, UnorderedElementsAre(Pair("a", "b"), Pair("c", "b"), Pair("d", "b")));
  unite_symbols(same, "c", "d");
  EXPECT_EQ(same.size(), 3u);
}

constexpr std::string_view kTwoBatches = R"(agraph (int64[unk__1] a, int64[unk__2] b, float[unk__3, 2] x)
    => (float[unk__4, 6] y) <float[3, 2] t = {1, 2, 3, 4, 5, 6}> {
  p = Gather (t, a)
  q = Gather (t, b)
  [join] y = Concat <axis = 1> (p, q, x)
})";

TEST(SameSymbols, AreNamedWhereATaskCannotRunWithoutThem) {
  const auto refused = test::import_graph(kTwoBatches, 17);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), AllOf(HasSubstr("join"), HasSubstr("--same-symbol unk__2=unk__1")));
  ImportOptions options;
  unite_symbols(options.same_symbol, "unk__1", "unk__2");
  unite_symbols(options.same_symbol, "unk__1", "unk__3");
  const auto united = test::import_graph(kTwoBatches, 17, options);
  ASSERT_TRUE(united.ok()) << united.diagnostic().str();
  EXPECT_THAT(inputs(*united), ElementsAre("a [unk__2]", "b [unk__2]", "x [unk__2,2]"));
  EXPECT_EQ(united->batch_symbol(), "unk__2");
}

TEST(SameSymbols, AreNamedOnceForAllTasks) {
  const auto refused = test::import_graph(R"(agraph (float[batch, a, 2] x, float[batch, b, 2] y, float[batch, c, 2] z)
    => (float[batch, d, 6] r) {
  [join] p = Concat <axis = 2> (x, y)
  [join_again] r = Concat <axis = 2> (p, z)
})",
                                          17);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(),
              AllOf(HasSubstr("'join'"), HasSubstr("specify: --same-symbol b=a --same-symbol c=a")));
}

TEST(Domains, ThatOfOnnxHasTwoNames) {
  const auto graph = test::import_text(R"(<ir_version: 8, opset_import: ["ai.onnx" : 17]>
    agraph (float[batch, 2] x, bool c) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
      z = ai.onnx.MatMul (x, w)
      y = ai.onnx.If (c) <then_branch = one () => (float[batch, 2] t) { t = ai.onnx.Softplus (z) },
                          else_branch = two () => (float[batch, 2] e) { e = ai.onnx.HardSwish (z) }>
    })");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_EQ(operators(*graph).back(), "if");
}

constexpr std::string_view kUnsorted = R"(agraph (float[batch, 2] x, bool c) => (float[batch, 2] y) {
    y = If (c) <then_branch = one () => (float[batch, 2] t) { t = Tanh (s)
                                                              s = Relu (z) },
                else_branch = two () => (float[batch, 2] e) { e = Relu (z) }>
    z = Add (x, v)
    v = Sin (x)
})";

TEST(Unsorted, NodesAreSortedAndThatIsSaid) {
  const auto read = test::read_graph(kUnsorted, 17);
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  EXPECT_THAT(ir::verify(read->graph), ::testing::IsEmpty());
  ASSERT_EQ(read->notes.counted_remarks.size(), 1u);
  EXPECT_THAT(read->notes.counted_remarks.begin()->first, HasSubstr("sorted"));
  EXPECT_EQ(read->notes.counted_remarks.begin()->second, 2u);
}

TEST(Unsorted, ACircleIsRefused) {
  const auto graph = test::import_graph(R"(agraph (float[2] x) => (float[2] y) {
    y = Add (x, z)
    [back] z = Relu (y)
  })",
                                        17);
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(graph.diagnostic().str(), HasSubstr("nothing before defines it"));
}

/// Operands that ONNX gives a size and elementwise tasks would stretch.
TEST(FixedSizes, AreNotStretched) {
  struct Case {
    std::string_view text, reports;
  };
  const Case cases[] = {
      {"agraph (float[batch, 1] x, float[4] s) => (float[batch, 4] y) { y = PRelu (x, s) }",
       "slope 's' of PRelu has the shape [4]; it needs one that broadcasts to [batch,1]"},
      {"agraph (float[batch, 2] x, float[1, 1, 2] s) => (float[1, batch, 2] y) { y = PRelu (x, s) }", "slope 's'"},
      {"agraph (float[1, 2] x, float[2, 3] w, float[4, 3] c) => (float[4, 3] y) { y = Gemm (x, w, c) }",
       "C 'c' of Gemm has the shape [4,3]; it needs one that broadcasts to [1,3]"},
      {"agraph (float[batch, 2] x, float[2, 1] w, float[3] c) => (float[batch, 3] y) { y = Gemm (x, w, c) }", "C 'c'"},
      {"agraph (float[batch, 4] x, float[4] low) => (float[batch, 4] y) { y = Clip (x, low) }",
       "min 'low' of Clip has the shape [4]; it needs one element"},
      {"agraph (float[batch, 4] x, float[4] high) => (float[batch, 4] y) { y = Clip (x, \"\", high) }", "max 'high'"},
      {"agraph (float[batch, 4, 5] x, float[1] s, float[2] b) => (float[batch, 4, 5] y)"
       " { y = GroupNormalization <num_groups = 2> (x, s, b) }",
       "[1]"},
      {"agraph (float[batch, 4, 5] x, float[1] s, float[4] b) => (float[batch, 4, 5] y)"
       " { y = InstanceNormalization (x, s, b) }",
       "[1]"},
      {"agraph (float[batch, 4, 5] x, float[1] s, float[4] b, float[4] m, float[4] v) => (float[batch, 4, 5] y)"
       " { y = BatchNormalization (x, s, b, m, v) }",
       "[1]"},
      {"agraph (float[batch, 4, 5] x, float[3, 4, 1] w, float[1] b) => (float[batch, 3, 5] y) { y = Conv (x, w, b) }",
       "[1]"},
  };
  for (const Case& each : cases) {
    const auto graph = test::import_graph(each.text, 18);
    ASSERT_FALSE(graph.ok()) << each.text;
    EXPECT_THAT(graph.diagnostic().str(), HasSubstr(std::string(each.reports)));
  }
  EXPECT_TRUE(
      test::import_graph("agraph (float[b, 2, 3] x, float[2, 1] s) => (float[b, 2, 3] y) { y = PRelu (x, s) }", 18)
          .ok());
}

TEST(InstanceNorm, ByRunningStatisticsKeepsSamplesApart) {
  const auto read = test::read_graph(R"(agraph (float[batch, 2, 3, 3] x) => (float[batch, 2, 3, 3] y)
    <float[2] w = {1, 2}, float[2] b = {3, 4}, float[2] m = {5, 6}, float[2] v = {7, 8}, int64[4] joint = {1, -1, 3, 3},
     int64[4] apart = {-1, 2, 3, 3}> {
    n = Shape <start = 0, end = 1> (x)
    flat = Reshape (x, joint)
    w1 = Tile (w, n)
    b1 = Tile (b, n)
    m1 = Tile (m, n)
    v1 = Tile (v, n)
    normal = BatchNormalization (flat, w1, b1, m1, v1)
    y = Reshape (normal, apart)
  })",
                                     18);
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  EXPECT_THAT(ir::verify(read->graph), ::testing::IsEmpty());
  const ir::Graph& graph = read->graph;
  for (const TaskId task : graph.tasks()) {
    if (graph.op(task).name != "core.batch_norm") continue;
    EXPECT_EQ(ir::str(*graph.type(graph.inputs(task)[0]).shape), "[batch,2,3,3]");
    EXPECT_EQ(graph.inputs(task)[3], graph.find("m"));
  }
  EXPECT_EQ(graph.type(graph.outputs()[0]).batch.axis, 0);
}

std::string old_model(int opset, std::string_view graph) {
  return "<ir_version: 3, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + std::string(graph);
}

TEST(OldOperatorSets, AreBroughtToTheOldestByTheConverterOfOnnx) {
  const auto six =
      test::import_text(old_model(6, R"(agraph (float[batch, 3, 4, 4] x, float[3] b, float[5, 48] w, float[5] c)
      => (float[batch, 5] y) {
    biased = Add <broadcast = 1, axis = 1> (x, b)
    flat = Flatten (biased)
    dropped = Dropout <is_test = 1> (flat)
    y = Gemm <broadcast = 1, transB = 1> (dropped, w, c)
  })"));
  ASSERT_TRUE(six.ok()) << six.diagnostic().str();
  EXPECT_THAT(ir::verify(*six), ::testing::IsEmpty());
  EXPECT_THAT(operators(*six), ::testing::Contains("linear"));
  EXPECT_EQ(ir::str(*six->type(six->outputs()[0]).shape), "[batch,5]");
  const ValueId biased = six->find("biased");
  ASSERT_TRUE(biased.valid());
  const ValueId second = six->inputs(six->producer(biased))[1];
  EXPECT_EQ(ir::str(*six->type(second).shape), "[3,1,1]");
  const auto four = test::import_text(old_model(4, R"(agraph (float[batch, 6] x) => (float[batch, 3, 2] z) {
    y = Reshape <shape = [0, 3, 2]> (x)
    z = Relu (y)
  })"));
  ASSERT_TRUE(four.ok()) << four.diagnostic().str();
  EXPECT_EQ(ir::str(*four->type(four->outputs()[0]).shape), "[batch,3,2]");
  EXPECT_EQ(four->value(four->outputs()[0]).name, "z");
}

// Stages return what their tasks make.
TEST(Outputs, ThatNoNodeMakesAreMadeByATask) {
  const auto found =
      test::read_graph(R"(agraph (float[N, 2] x) => (float[N, 2] y, float[N, 2] x, float[2] w, float[2] w)
      <float[2] w = {1, 2}> { y = Add (x, w) })",
                       17);
  ASSERT_TRUE(found.ok()) << found.diagnostic().str();
  std::vector<std::string> names;
  for (const ValueId output : found->graph.outputs()) {
    names.emplace_back(found->graph.value(output).name);
    EXPECT_TRUE(found->graph.producer(output).valid()) << names.back();
  }
  EXPECT_THAT(names, ElementsAre("y", "x.output", "w.output"));
  ASSERT_EQ(found->notes.open.size(), 2U);
  EXPECT_THAT(found->notes.open[0].message, HasSubstr("output 'x' is an input, a weight or a constant"));
}

TEST(OldOperatorSets, KnowOperatorsThatTheConverterDoesNot) {
  const auto cast =
      test::import_text(old_model(5, R"(agraph (float[batch, 6] x, float[batch, 6] z) => (float[batch, 6] y) {
    less = Less (x, z)
    y = Cast <to = "FLOAT"> (less)
  })"));
  ASSERT_TRUE(cast.ok()) << cast.diagnostic().str();
  EXPECT_THAT(operators(*cast), ElementsAre("lt", "cast"));
  const auto lstm =
      test::import_text(old_model(6, R"(agraph (float[4, batch, 2] x, float[1, 12, 2] w, float[1, 12, 3] r)
      => (float[4, 1, batch, 3] y) { y = LSTM <hidden_size = 3, output_sequence = 1> (x, w, r) })"));
  ASSERT_TRUE(lstm.ok()) << lstm.diagnostic().str();
}

TEST(OldOperatorSets, SayWhatTheConverterCannotDo) {
  const auto tile =
      test::import_text(old_model(5, R"(agraph (float[batch, 6] x, float[1] n, float[1] a) => (float[k, 6] y) {
    y = Tile (x, n, a)
  })"));
  ASSERT_FALSE(tile.ok());
  EXPECT_THAT(tile.diagnostic().str(), AllOf(HasSubstr("operator set 5"), HasSubstr("converter cannot")));
}

}  // namespace
}  // namespace rannc::frontend
