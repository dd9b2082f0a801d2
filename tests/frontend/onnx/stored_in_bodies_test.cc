// What bodies store is stored once, however often a body is translated, and graph outputs keep their names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ir/op/op.h"
#include "ir/verify.h"
#include "passes/parameters/recover_parameters.h"
#include "tests/frontend/support/onnx_text.h"

namespace rannc::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

ir::Graph imported(std::string_view text, int opset = 17, const ImportOptions& options = {}) {
  auto graph = test::import_graph(text, opset, options);
  EXPECT_TRUE(graph.ok()) << graph.diagnostic().str();
  if (!graph.ok()) return {};
  EXPECT_THAT(ir::verify(*graph), ::testing::IsEmpty());
  return *std::move(graph);
}

/// Names of stored tensors of floats that tasks read.
std::vector<std::string> stored(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId value : graph.values()) {
    const bool found = graph.kind(value) == ir::ValueKind::kConstant && ir::is_float(graph.type(value).dtype);
    if (found && graph.has_uses(value)) names.emplace_back(graph.value(value).name);
  }
  return names;
}

/// What is trained, by the pass that decides it.
std::vector<std::string> trained(std::string_view text, int opset = 17) {
  auto read = test::read_graph(text, opset);
  EXPECT_TRUE(read.ok()) << read.diagnostic().str();
  if (!read.ok()) return {};
  passes::PassContext context;
  const auto done = passes::RecoverParameters({.file = read->notes.stored}).run(read->graph, context);
  EXPECT_TRUE(done.ok());
  std::vector<std::string> names;
  for (const ValueId value : read->graph.values()) {
    if (read->graph.kind(value) == ir::ValueKind::kParameter) names.emplace_back(read->graph.value(value).name);
  }
  return names;
}

constexpr std::string_view kWeights = "<float[2, 2] w = {1, 2, 3, 4}, float[2] b = {0, 0}>";

/// A layer of its own weights, as often as `trips` says.
std::string repeated(std::string_view trips, std::string_view weights = kWeights) {
  return "agraph (float[batch, 2] x) => (float[batch, 2] y) <int64 n = {" + std::string(trips) + R"(}> {
    y = Loop (n, "", x) <body = body (int64 i, bool go, float[batch, 2] s) => (bool more, float[batch, 2] t) )" +
         std::string(weights) + R"( {
      half = Constant <value = float[2] {0.5, 0.25}> ()
      same = Identity (w)
      m = MatMul (s, same)
      a = Add (m, b)
      t = Mul (a, half)
      more = Identity (go)
    }>
  })";
}

TEST(StoredInBodies, AreOneTensorHoweverOftenTheBodyIsUnrolled) {
  for (const char* const trips : {"1", "3", "700"}) {
    EXPECT_THAT(stored(imported(repeated(trips))), UnorderedElementsAre("w", "b", "half")) << trips;
    EXPECT_THAT(trained(repeated(trips)), UnorderedElementsAre("w", "b")) << trips;
  }
}

TEST(StoredInBodies, AreOneTensorOfALoopThatIsATask) {
  EXPECT_THAT(stored(imported(repeated("5000"))), UnorderedElementsAre("w", "b", "half"));
  EXPECT_THAT(trained(repeated("5000")), UnorderedElementsAre("w", "b"));
}

TEST(StoredInBodies, OfAScan) {
  EXPECT_THAT(trained(R"(agraph (float[3, batch, 2] x, float[batch, 2] s0) => (float[batch, 2] y) {
    y, rows = Scan (s0, x) <num_scan_inputs = 1, body = body (float[batch, 2] s, float[batch, 2] row)
        => (float[batch, 2] t, float[batch, 2] r) <float[2, 2] w = {1, 2, 3, 4}> {
      m = MatMul (s, w)
      t = Add (m, row)
      r = Identity (t)
    }>
  })"),
              ElementsAre("w"));
}

TEST(StoredInBodies, OfBranchesInAnUnrolledLoop) {
  constexpr std::string_view kText = R"(agraph (float[batch, 2] x, bool c) => (float[batch, 2] y) <int64 n = {3}> {
    y = Loop (n, "", x) <body = body (int64 i, bool go, float[batch, 2] s) => (bool more, float[batch, 2] t) {
      t = If (c) <then_branch = one () => (float[batch, 2] p) <float[2, 2] w = {1, 2, 3, 4}> { p = MatMul (s, w) },
                  else_branch = two () => (float[batch, 2] q) <float[2, 2] v = {1, 2, 3, 4}> { q = MatMul (s, v) }>
      more = Identity (go)
    }>
  })";
  EXPECT_THAT(stored(imported(kText)), UnorderedElementsAre("w", "v"));
  EXPECT_THAT(trained(kText), UnorderedElementsAre("w", "v"));
}

TEST(StoredInBodies, OfOneNameInTwoBodiesAreTwo) {
  constexpr std::string_view kText = R"(agraph (float[batch, 2] x, bool c) => (float[batch, 2] y) {
    y = If (c) <then_branch = one () => (float[batch, 2] p) <float[2, 2] w = {1, 2, 3, 4}> { p = MatMul (x, w) },
                else_branch = two () => (float[batch, 2] q) <float[2, 2] w = {5, 6, 7, 8}> { q = MatMul (x, w) }>
  })";
  EXPECT_THAT(stored(imported(kText)), UnorderedElementsAre("w", "If y/else/w"));
}

TEST(StoredInBodies, DoNotTakeTheNameOfAnOutput) {
  const ir::Graph graph = imported(R"(agraph (float[batch, 2] x, bool c) => (float[batch, 2] w) {
    w = If (c) <then_branch = one () => (float[batch, 2] p) <float[2, 2] w = {1, 2, 3, 4}> { p = MatMul (x, w) },
                else_branch = two () => (float[batch, 2] q) { q = Relu (x) }>
  })");
  EXPECT_EQ(graph.value(graph.outputs()[0]).name, "w");
}

TEST(StoredInBodies, AWeightInsideAndOutsideIsOne) {
  EXPECT_THAT(trained(R"(agraph (float[batch, 2] x, bool c) => (float[batch, 2] y)
    <float[2, 2] w = {1, 2, 3, 4}> {
    first = MatMul (x, w)
    y = If (c) <then_branch = one () => (float[batch, 2] p) { p = MatMul (first, w) },
                else_branch = two () => (float[batch, 2] q) { q = Relu (first) }>
  })"),
              ElementsAre("w"));
}

TEST(StoredInBodies, SingleNumbersAreThoseOfTheCode) {
  EXPECT_THAT(
      trained(R"(agraph (float[batch, 2] x) => (float[batch, 2] y) <int64 n = {3}, float[2, 2] w = {1, 2, 3, 4}> {
    y = Loop (n, "", x) <body = body (int64 i, bool go, float[batch, 2] s) => (bool more, float[batch, 2] t)
        <float "layer.scale" = {0.5}> {
      m = MatMul (s, w)
      t = Mul (m, "layer.scale")
      more = Identity (go)
    }>
  })"),
      ElementsAre("w"));
}

TEST(StoredInBodies, OfAFunctionAreOneForAllItsCalls) {
  const auto graph = test::import_text(R"(<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    agraph (float[batch, 2] x) => (float[batch, 2] y) { z = own.twice (x)
                                                        y = own.twice (z) }
    <domain: "own", opset_import: ["" : 17]> twice (s) => (t) {
      n = Constant <value = int64 {2}> ()
      t = Loop (n, "", s) <body = body (int64 i, bool go, float[batch, 2] s0) => (bool more, float[batch, 2] s1)
        <float[2, 2] w = {1, 2, 3, 4}> { s1 = MatMul (s0, w)
                                         more = Identity (go) }>
    })");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  EXPECT_THAT(stored(*graph), ElementsAre("w"));
}

TEST(StoredInBodies, AnIfMayGiveThem) {
  imported(R"(agraph (float[batch, 2] x, bool c) => (float[batch, 2] y) <float[2] b = {1, 2}> {
    z = If (c) <then_branch = one () => (float[2] p) <float[2] w = {1, 2}> { p = Identity (w) },
                else_branch = two () => (float[2] q) { q = Identity (b) }>
    y = Add (x, z)
  })");
}

TEST(OutputNames, AreKeptThroughSequencesOptionalsAndBranches) {
  const auto names = [](std::string_view text, int opset) {
    const ir::Graph graph = imported(text, opset);
    std::vector<std::string> found;
    for (const ValueId output : graph.outputs()) found.emplace_back(graph.value(output).name);
    return found;
  };
  EXPECT_THAT(names(R"(agraph (float[batch, 4] x) => (float[batch, 4] y, float[batch, 4] z)
    <int64 zero = {0}, int64 one = {1}, int64 two = {2}> {
    a = Relu (x)
    list = SequenceConstruct (a, x)
    more = SequenceInsert (list, a)
    y = SequenceAt (more, one)
    z = SequenceAt (more, two)
  })",
                    18),
              ElementsAre("y", "z"));
  EXPECT_THAT(names(R"(agraph (float[batch, 4] x) => (float[batch, 4] y) {
    a = Relu (x)
    maybe = Optional (a)
    y = OptionalGetElement (maybe)
  })",
                    18),
              ElementsAre("y"));
  EXPECT_THAT(names(R"(agraph (float[batch, 4] x) => (float[batch, 4] y) <bool c = {1}, int64 n = {2}> {
    z = If (c) <then_branch = one () => (float[batch, 4] t) { t = Relu (x) },
                else_branch = two () => (float[batch, 4] e) { e = Tanh (x) }>
    y = Loop (n, "", z) <body = body (int64 i, bool go, float[batch, 4] s) => (bool more, float[batch, 4] u) {
      u = Tanh (s)
      more = Identity (go)
    }>
  })",
                    18),
              ElementsAre("y"));
}

// The uses of a branch's result are uses of the weight that it computes it from.
TEST(StoredInBodies, WeightsThatBranchesScaleAreTrained) {
  EXPECT_THAT(
      trained("agraph (float[batch, 2] x) => (float[batch, 2] y) <float[2, 2] w = {1, 2, 3, 4}, float zero = {0}> {"
              "s = ReduceSum <keepdims = 0> (w)\n c = Greater (s, zero)\n"
              "v = If (c) <then_branch = one () => (float[2, 2] p) { p = Abs (w) },"
              "            else_branch = two () => (float[2, 2] q) { q = Neg (w) }>\n"
              "y = MatMul (x, v) }"),
      ElementsAre("w"));
}

}  // namespace
}  // namespace rannc::frontend
