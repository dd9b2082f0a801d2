// If, Loop and Scan: in place where it is known what runs, else one task with bodies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> operators(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const TaskId task : graph.tasks()) names.push_back(graph.op(task).name.substr(5));
  return names;
}

ir::Graph imported(std::string_view text, int opset = 21, const ImportOptions& options = {}) {
  auto graph = test::import_graph(text, opset, options);
  EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  if (!graph.ok()) return {};
  EXPECT_THAT(ir::verify(*graph), ::testing::IsEmpty());
  const std::string printed = ir::print(*graph);
  const auto read = ir::parse_graph(printed, "printed.rir");
  EXPECT_TRUE(read.ok()) << read.diagnostic().str() << "\n" << printed;
  if (read.ok()) {
    EXPECT_TRUE(ir::equal(*graph, *read)) << printed;
    EXPECT_EQ(ir::print(*read), printed);
  }
  return *std::move(graph);
}

std::string refused(std::string_view text, int opset = 21, const ImportOptions& options = {}) {
  const auto graph = test::import_graph(text, opset, options);
  EXPECT_FALSE(graph.ok());
  return graph.ok() ? "" : graph.diagnostic().str();
}

constexpr std::string_view kBranches = R"(
  y = If (c) <then_branch = agraph () => (float[batch, 4] t) { t = Relu (x) },
              else_branch = bgraph () => (float[batch, 4] e) { one = Constant <value = float {1.0}> ()
                                                              e = Add (x, one) }>
})";

TEST(If, OfAKnownConditionIsTheBranch) {
  const std::string head = "agraph (float[batch, 4] x) => (float[batch, 4] y) <bool c = {";
  EXPECT_THAT(operators(imported(head + "1}> {" + std::string(kBranches))), ElementsAre("relu"));
  EXPECT_THAT(operators(imported(head + "0}> {" + std::string(kBranches))), ElementsAre("add"));
}

TEST(If, OfDataIsOneTaskWithTwoBodies) {
  const ir::Graph graph =
      imported("agraph (float[batch, 4] x, bool c) => (float[batch, 4] y) {" + std::string(kBranches));
  ASSERT_THAT(operators(graph), ElementsAre("reshape", "if"));
  const TaskId task(1);
  EXPECT_EQ(graph.type(graph.outputs(task)[0]).batch.axis, 0);
  ASSERT_EQ(graph.inputs(task).size(), 3u);  // condition, x, and the constant of one branch
  EXPECT_EQ(graph.kind(graph.inputs(task)[2]), ir::ValueKind::kConstant);
  EXPECT_THAT(operators(graph.attributes(task).body("then")->graph()), ElementsAre("relu"));
  EXPECT_THAT(operators(graph.attributes(task).body("else")->graph()), ElementsAre("add"));
}

TEST(If, NeedsBranchesOfOneType) {
  EXPECT_THAT(refused(R"(agraph (float[batch, 4] x, bool c) => (float[batch, 4] y) {
    [choice] y = If (c) <then_branch = agraph () => (float[batch, 4] t) { t = Relu (x) },
                         else_branch = bgraph () => (float[4, batch] e) { e = Transpose (x) }>
  })"),
              ::testing::AllOf(HasSubstr("choice"), HasSubstr("branches have different types for result 0")));
}

TEST(If, ConditionsAreOneTruthValue) {
  EXPECT_THAT(refused("agraph (float[batch, 4] x, bool[batch] c) => (float[batch, 4] y) {" + std::string(kBranches)),
              HasSubstr("reshape"));
}

/// x * w, trip after trip.
std::string loop(std::string_view head, std::string_view trips, std::string_view condition, std::string_view end) {
  return std::string(head) + " {\n [steps] y, all = Loop (" + std::string(trips) + ", " + std::string(condition) +
         R"(, x) <body = body (int64 i, bool go, float[batch, 4] s) => (bool more, float[batch, 4] n, float[batch, 4] row) {
      n = MatMul (s, w)
      row = Relu (n)
      more = )" +
         std::string(end) + "\n }>\n}";
}
constexpr std::string_view kHead =
    "agraph (float[batch, 4] x) => (float[batch, 4] y, float[t, batch, 4] all)"
    " <float[4, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, int64 three = {3},"
    " int64 many = {5000}, bool yes = {1}>";

TEST(Loop, OfAFewTripsIsUnrolled) {
  const ir::Graph graph = imported(loop(kHead, "three", "", "Identity (go)"));
  const auto names = operators(graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "matmul"), 3);
  EXPECT_EQ(ir::str(*graph.type(graph.outputs()[1]).shape), "[3,batch,4]");
  EXPECT_EQ(graph.type(graph.outputs()[1]).batch.axis, 1);
}

TEST(Loop, OfManyTripsIsOneTask) {
  const ir::Graph graph = imported(loop(kHead, "many", "yes", "Identity (go)"));
  ASSERT_THAT(operators(graph), ElementsAre("loop"));
  EXPECT_EQ(ir::str(*graph.type(graph.outputs()[1]).shape), "[5000,batch,4]");
  EXPECT_EQ(graph.type(graph.outputs()[1]).batch.axis, 1);
  EXPECT_EQ(graph.type(graph.outputs()[0]).batch.axis, 0);
  EXPECT_EQ(graph.find("w"), graph.inputs(TaskId(0)).back());
}

TEST(Loop, OfASymbolicNumberOfTripsIsOneTask) {
  const std::string head =
      "agraph (float[batch, 4] x, float[T] times) => (float[batch, 4] y, float[T, batch, 4] all)"
      " <float[4, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, int64[1] zero = {0}>";
  std::string text = loop(head, "trips", "", "Identity (go)");
  text.insert(text.find('{', head.size()) + 1, " shape = Shape (times)\n trips = Gather (shape, zero)\n");
  const ir::Graph graph = imported(text);
  EXPECT_EQ(ir::str(*graph.type(graph.outputs()[1]).shape), "[T,batch,4]");
}

TEST(Loop, WhoseConditionReadsDataSaysHowManyTripsThereMayBe) {
  constexpr std::string_view kData = R"(agraph (float[4] x) => (float[4] y)
    <float limit = {100.0}, bool yes = {1}, float two = {2.0}> {
    [grow] y = Loop ("", yes, x) <body = body (int64 i, bool go, float[4] s) => (bool more, float[4] n) {
      n = Mul (s, two)
      largest = ReduceMax <keepdims = 0> (n)
      more = Less (largest, limit)
    }>
  })";
  EXPECT_THAT(refused(kData), ::testing::AllOf(HasSubstr("grow"), HasSubstr("--max-trips")));
  const ir::Graph graph = imported(kData, 21, {.max_trips = 20});
  EXPECT_EQ(operators(graph).back(), "loop");
  EXPECT_EQ(graph.attributes(TaskId(graph.task_count() - 1)).integer("max_trips"), 20);
}

TEST(Loop, WithoutAnEndIsRefused) {
  constexpr std::string_view kEndless = R"(agraph (float[4] x) => (float[4] y) <bool yes = {1}> {
    before = Tanh (x)
    [forever] after = Loop ("", yes, before) <body = body (int64 i, bool go, float[4] s) => (bool more, float[4] n) {
      n = Relu (s)
      more = Identity (go)
    }>
    y = Add (after, before)
  })";
  EXPECT_THAT(refused(kEndless), ::testing::AllOf(HasSubstr("forever"), HasSubstr("--max-trips")));
  EXPECT_THAT(refused(kEndless, 21, {.max_trips = 5}),
              ::testing::AllOf(HasSubstr("forever"), HasSubstr("it has neither a number of trips nor a condition")));
}

TEST(Loop, AConditionThatIsASequenceIsRefused) {
  constexpr std::string_view kList = R"(agraph (float[4] x) => (float[4] y) <bool yes = {1}, int64 three = {3}> {
    [steps] y = Loop (three, yes, x) <body = body (int64 i, bool go, float[4] s) => (seq(bool) more, float[4] n) {
      n = Relu (s)
      more = SequenceConstruct (go)
    }>
  })";
  EXPECT_THAT(refused(kList), ::testing::AllOf(HasSubstr("steps"), HasSubstr("sequence")));
}

TEST(Loop, OfABodyWithoutAConditionIsRefused) {
  constexpr std::string_view kShort = R"(agraph (float[4] x) => (float[4] y) <bool yes = {1}> {
    [steps] y = Loop ("", yes, x) <body = body (int64 i) => (bool more, float[4] n) {
      n = Relu (x)
      more = Not (yes)
    }>
  })";
  EXPECT_THAT(refused(kShort), HasSubstr("the subgraph of Loop takes 1 inputs; 3 are handed to it"));
}

TEST(Loop, UnrollsWhereTheConditionFollowsFromTheTrip) {
  const ir::Graph graph = imported(R"(agraph (float[4] x) => (float[4] y) <int64 last = {2}, bool yes = {1}> {
    y = Loop ("", yes, x) <body = body (int64 i, bool go, float[4] s) => (bool more, float[4] n) {
      n = Relu (s)
      more = Less (i, last)
    }>
  })");
  const auto names = operators(graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "relu"), 3);
}

TEST(Loop, StatesStayWhatTheyAre) {
  std::string text = loop(kHead, "many", "", "Identity (go)");
  text.replace(text.find("n = MatMul (s, w)"), 17, "n = Concat <axis = 1> (s, s)");
  EXPECT_THAT(refused(text), ::testing::AllOf(HasSubstr("steps"), HasSubstr("it must not change")));
}

TEST(Loop, DrawsARowForEachTrip) {
  std::string text = loop(kHead, "many", "", "Identity (go)");
  text.replace(text.find("row = Relu (n)"), 14, "row = RandomNormalLike (n)");
  const ir::Graph graph = imported(text);
  const ir::Attributes& attributes = graph.attributes(TaskId(graph.task_count() - 1));
  EXPECT_EQ(attributes.integer("scanned"), 1);
  const ValueId drawn = graph.inputs(TaskId(graph.task_count() - 1))[3];  // trips, condition, state
  ASSERT_NE(graph.random_input(drawn), nullptr);
  EXPECT_EQ(graph.random_input(drawn)->of, ir::RandomInput::Of::kNormal);
  EXPECT_EQ(ir::str(*graph.type(drawn).shape), "[5000,batch,4]");
  EXPECT_EQ(graph.type(drawn).batch.axis, 1);
}

/// Operator set 8: samples on axis 0, each by itself.
std::string old_scan(const std::string& samples) {
  return "agraph (float[" + samples + ", 2] h, float[" + samples + ", 3, 2] x) => (float[" + samples +
         ", 2] y, float[" + samples +
         ", 3, 2] all) { [steps] y, all = Scan <num_scan_inputs = 1, body = body (float[2] s, float[2] row) => "
         "(float[2] "
         "n, float[2] o) { n = Add (s, row)\n o = Identity (n) }> (\"\", h, x) }";
}

TEST(Scan, OfOperatorSet8RunsSampleBySample) {
  const ir::Graph graph = imported(old_scan("2"), 8);
  const auto names = operators(graph);
  EXPECT_EQ(std::count(names.begin(), names.end(), "add"), 6);
  EXPECT_EQ(ir::str(*graph.type(graph.outputs()[0]).shape), "[2,2]");
  EXPECT_EQ(ir::str(*graph.type(graph.outputs()[1]).shape), "[2,3,2]");
  EXPECT_THAT(refused(old_scan("batch"), 8),
              ::testing::AllOf(HasSubstr("steps"), HasSubstr("if their number is known; convert the model")));
}

TEST(Loop, OverSamplesIsRefusedWithAdvice) {
  std::string text = loop(kHead, "samples", "", "Identity (go)");
  text.insert(text.find("{\n [steps]") + 1, " shape = Shape <start = 0, end = 1> (x)\n samples = Squeeze (shape)\n");
  EXPECT_THAT(refused(text), ::testing::AllOf(HasSubstr("steps"), HasSubstr("Loop makes batch trips"),
                                              HasSubstr("EmbeddingBag"), HasSubstr("look all rows up")));
}

TEST(Loop, OfANumberOfTripsThatIsDataDrawsNothing) {
  std::string text =
      loop("agraph (float[batch, 4] x, int64 trips, float[4, 4] w) => (float[batch, 4] y, float[t, batch, 4] all)",
           "trips", "", "Identity (go)");
  text.replace(text.find("row = Relu (n)"), 14, "row = RandomNormalLike (n)");
  EXPECT_THAT(refused(text, 21, {.max_trips = 9}),
              ::testing::AllOf(HasSubstr("steps"), HasSubstr("draws random numbers in a loop")));
}

TEST(If, DrawsNumbersThatNobodyElseDraws) {
  const ir::Graph graph = imported(
      "agraph (float[batch, 4] x, bool c) => (float[batch, 4] y) { r = RandomNormalLike (x)\n n = RandomNormalLike "
      "(x)\n"
      "s = Add (r, n)\n y = If (c) <then_branch = agraph () => (float[batch, 4] t) { a = RandomNormalLike (x)\n"
      "t = Add (s, a) }, else_branch = bgraph () => (float[batch, 4] e) { b = RandomNormalLike (x)\n e = Add (s, b) }> "
      "}");
  std::set<uint64_t> keys;
  size_t draws = 0;
  for (const ValueId value : graph.values()) {
    const ir::RandomInput* const draw = graph.random_input(value);
    if (draw == nullptr) continue;
    ++draws;
    keys.insert(draw->key);
  }
  EXPECT_EQ(draws, 4U);
  EXPECT_EQ(keys.size(), draws);
}

TEST(Loop, CollectsASequence) {
  const ir::Graph graph = imported(R"(agraph (float[batch, 4] x) => (float[batch, 12] y) <int64 three = {3}> {
    none = SequenceEmpty ()
    list = Loop (three, "", none) <body = body (int64 i, bool go, seq(float) s) => (bool more, seq(float) n) {
      more = Identity (go)
      r = Relu (x)
      n = SequenceInsert (s, r)
    }>
    y = ConcatFromSequence <axis = 1> (list)
  })");
  EXPECT_EQ(ir::str(*graph.type(graph.outputs()[0]).shape), "[batch,12]");
}

TEST(Scan, OfMoreThanThereIsOrLessIsRefused) {
  for (const std::string scanned : {"-9223372036854775808", "-1", "0", "3", "9223372036854775807"}) {
    const auto graph = test::import_graph(
        "agraph (float[batch, 3] x, float[3] first) => (float[3] y) { y = Scan <num_scan_inputs = " + scanned +
            ", body = body (float[3] s, float[3] row) => (float[3] t) { t = Add (s, row) }> (first, x) }",
        17);
    ASSERT_FALSE(graph.ok()) << scanned;
    EXPECT_NE(graph.diagnostic().str().find("Scan of 2 operands cannot scan " + scanned), std::string::npos)
        << graph.diagnostic().str();
  }
}

TEST(Scan, TakesRowsOfAnyAxis) {
  for (const auto& [steps, task] : {std::pair("3", false), std::pair("T", true)}) {
    const std::string text = std::string("agraph (float[batch, ") + steps +
                             ", 4] x, float[batch, 4] h) => (float[batch, 4] y, float[batch, " + steps + R"(, 4] all) {
      y, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1], scan_input_directions = [1],
                     body = body (float[batch, 4] s, float[batch, 4] row) => (float[batch, 4] n, float[batch, 4] o) {
        n = Add (s, row)
        o = Tanh (n)
      }> (h, x)
    })";
    const ir::Graph graph = imported(text);
    EXPECT_EQ(ir::str(*graph.type(graph.outputs()[1]).shape), std::string("[batch,") + steps + ",4]");
    EXPECT_EQ(graph.type(graph.outputs()[1]).batch.axis, 0);
    const auto names = operators(graph);
    EXPECT_EQ(std::count(names.begin(), names.end(), "loop"), task ? 1 : 0);
  }
}

TEST(Subgraphs, ReadWhatTheGraphAroundMakes) {
  const ir::Graph graph = imported(R"(agraph (float[batch, 4] x, bool c, bool d) => (float[batch, 4] y) {
    r = Relu (x)
    y = If (c) <then_branch = one () => (float[batch, 4] t) {
                  t = If (d) <then_branch = two () => (float[batch, 4] u) { u = Tanh (r) },
                              else_branch = three () => (float[batch, 4] v) { v = Identity (x) }>
                },
                else_branch = four () => (float[batch, 4] e) { e = Neg (r) }>
  })");
  const TaskId task(graph.task_count() - 1);
  const ir::Graph& then = graph.attributes(task).body("then")->graph();
  EXPECT_EQ(then.op(TaskId(then.task_count() - 1)).name, "core.if");
  EXPECT_EQ(graph.inputs(task).size(), 4u);  // condition; x, d and r
}

TEST(Subgraphs, AllOperatorsThatAreMissingAreListed) {
  EXPECT_THAT(refused(R"(agraph (float[4] x, bool c) => (float[4] y) {
    y = If (c) <then_branch = one () => (float[4] t) { t = ai.onnx.ml.Normalizer (x) },
                else_branch = two () => (float[4] e) { e = ai.onnx.ml.Scaler (x) }>
  })"),
              ::testing::AllOf(HasSubstr("Normalizer"), HasSubstr("Scaler")));
}

TEST(Sequences, AreKnownBeforeTheModelRuns) {
  const ir::Graph graph = imported(R"(agraph (float[batch, 4] x) => (float[batch, 2] y, int64 n)
    <int64 two = {2}, int64 last = {-1}> {
    parts = SplitToSequence <axis = 1> (x, two)
    n = SequenceLength (parts)
    fewer = SequenceErase (parts, last)
    y = SequenceAt (fewer, last)
  })");
  EXPECT_THAT(operators(graph), ElementsAre("slice", "slice", "identity", "identity"));  // of y and n
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "y");
  EXPECT_THAT(graph.type(graph.outputs()[1]).contents, ::testing::Optional(ElementsAre(ir::Dim(2))));
}

TEST(Sequences, HaveNoPlacesOutside) {
  EXPECT_THAT(refused(R"(agraph (float[4] x) => (float[4] y) <int64 two = {2}> {
    list = SequenceConstruct (x, x)
    [far] y = SequenceAt (list, two)
  })"),
              ::testing::AllOf(HasSubstr("far"), HasSubstr("position 2 is out of range for a sequence of 2")));
}

TEST(Sequences, AreNoTensors) {
  EXPECT_THAT(refused(R"(agraph (float[4] x) => (float[4] y) {
    list = SequenceConstruct (x, x)
    [sum] y = Relu (list)
  })"),
              ::testing::AllOf(HasSubstr("sum"), HasSubstr("'list' is a sequence where a tensor is needed")));
}

TEST(Optionals, AreWhatIsInThem) {
  const ir::Graph graph = imported(R"(agraph (float[4] x) => (float[4] y, bool has) {
    maybe = Optional (x)
    has = OptionalHasElement (maybe)
    y = OptionalGetElement (maybe)
  })",
                                   18);
  EXPECT_THAT(operators(graph), ElementsAre("identity", "identity"));  // of y and has
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "y");
  EXPECT_THAT(graph.type(graph.outputs()[1]).contents, ::testing::Optional(ElementsAre(ir::Dim(1))));
}

}  // namespace
}  // namespace rannc::frontend
