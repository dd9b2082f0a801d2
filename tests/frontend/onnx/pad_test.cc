// Pad: amounts as numbers, as sizes and as attributes, all modes, negative ones, computed values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/frontend/support/imported_graph.h"
#include "tests/frontend/support/numbers_of.h"
#include "tests/frontend/support/onnx_run.h"

namespace rannc::frontend {
namespace {

using test::ImportedGraph;
using test::numbers_of;
using test::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Pad, TakesAmountsThatFollowFromSizes) {
  // (-s) % 32 after the length: what an exporter writes for "up to a multiple of 32".
  const ImportedGraph model(
      "agraph (float[batch, s, 4] x) => (float[batch, t, 4] y) <int64[1] m = {32}, int64[2] z = {0, 0}>\n"
      "{ n = Shape <start = 1, end = 2> (x)\n k = Neg (n)\n r = Mod (k, m)\n one = Constant <value_ints = [0]> ()\n"
      "  p = Concat <axis = 0> (z, one, one, r, one)\n y = Pad (x, p) }",
      18);
  EXPECT_EQ(model.output(), "f32[batch,mod(-s, 32) + s,4] @0");
}

TEST(Pad, TakesAmountsInTheOrderInWhichAnExporterTurnsThem) {
  // From (after, before) pairs of the last axis on, by way of a matrix of them.
  const ImportedGraph model(
      "agraph (float[batch, 3, h, w] x) => (float[batch, 3, t, u] y) <int64[1] m = {8}, int64[1] zero = {0}, int64[4]"
      " others = {0, 0, 0, 0}, int64[2] pairs = {-1, 2}, int64[1] last = {-1}, int64[1] far = {-9223372036854775807},"
      " int64[1] flat = {-1}>\n"
      "{ h = Shape <start = 2, end = 3> (x)\n w = Shape <start = 3> (x)\n a = Neg (h)\n b = Neg (w)\n"
      "  c = Mod (a, m)\n d = Mod (b, m)\n p = Concat <axis = 0> (zero, d, zero, c, others)\n"
      "  q = Reshape (p, pairs)\n r = Slice (q, last, far, zero, last)\n s = Transpose <perm = [1, 0]> (r)\n"
      "  l = Reshape (s, flat)\n k = Cast <to = 7> (l)\n y = Pad (x, k) }",
      18);
  EXPECT_EQ(model.output(), "f32[batch,3,h + mod(-h, 8),mod(-w, 8) + w] @0");
}

TEST(Pad, RefusesAmountsThatDependOnDataByName) {
  EXPECT_THAT(
      refusal("agraph (float[batch, 4] x, int64[4] amounts) => (float[batch, n] y) { y = Pad (x, amounts) }", 13),
      HasSubstr("Pad: 'amounts' must follow from constants and sizes: the size of the result depends on it"));
  EXPECT_THAT(refusal("agraph (float[batch, 4] x) => (float[batch, 4] y) <int64[3] p = {0, 1, 1}>"
                      " { y = Pad (x, p) }",
                      13),
              HasSubstr("must have two amounts for each of 2 axes"));
  EXPECT_THAT(refusal("agraph (float[batch, 4] x) => (float[batch, 4] y) <int64[4] p = {1, 0, 0, 0}>"
                      " { y = Pad (x, p) }",
                      13),
              HasSubstr("pad over axis 0 of [batch,4] would mix the samples"));
}

TEST(Pad, ListsAxesSinceOpset18) {
  const ImportedGraph model(
      "agraph (float[batch, 3, 4] x) => (float[batch, 3, 7] y) <int64[2] p = {1, 2},"
      " int64[1] a = {-1}> { y = Pad (x, p, , a) }",
      18);
  EXPECT_EQ(model.output(), "f32[batch,3,7] @0");
  EXPECT_THAT(model.last().integers("pads"), ElementsAre(0, 0, 1, 0, 0, 2));
  const ImportedGraph old("agraph (float[batch, 3] x) => (float[batch, 6] y) { y = Pad <pads = [0, 1, 0, 2]> (x) }", 9);
  EXPECT_EQ(old.output(), "f32[batch,6] @0");
}

/// {1, 2, 3} with one before and two after, or what the amounts say.
std::vector<double> padded(const std::string& mode, const std::string& amounts = "{1, 2}") {
  return numbers_of("agraph () => (float[n] y) <float[3] x = {1, 2, 3}, int64[2] p = " + amounts +
                        "> { y = Pad <mode = \"" + mode + "\"> (x, p) }",
                    19);
}

TEST(Pad, HasFourModes) {
  EXPECT_THAT(padded("constant"), ElementsAre(0, 1, 2, 3, 0, 0));
  EXPECT_THAT(padded("edge"), ElementsAre(1, 1, 2, 3, 3, 3));
  EXPECT_THAT(padded("reflect"), ElementsAre(2, 1, 2, 3, 2, 1));
  EXPECT_THAT(padded("wrap"), ElementsAre(3, 1, 2, 3, 1, 2));
}

/// The node over {1, 2, 3, 4, 5} on an axis of free extent, in windows of 2 and steps of 2.
std::vector<double> in_windows(const std::string& op, const std::string& mode, const std::string& more = "") {
  const bool conv = op == "Conv";
  const std::string window = conv ? "" : ", kernel_shape = [2]";
  const auto ran = test::run_onnx(
      "agraph (float[batch, 1, seq] x) => (float[batch, 1, t] y) <float[1, 1, 2] w = {1, 1}>"
      " { y = " +
          op + " <auto_pad = \"SAME_" + mode + "\", strides = [2]" + window + more + "> (x" + (conv ? ", w" : "") +
          ") }",
      19, {{"x", {1, 2, 3, 4, 5}}});
  EXPECT_TRUE(ran.ok()) << (ran.ok() ? "" : ran.diagnostic().str());
  return ran.ok() ? ran->numbers[0] : std::vector<double>();
}

TEST(SamePads, FollowFromFreeSizes) {
  EXPECT_THAT(in_windows("Conv", "UPPER"), ElementsAre(3, 7, 5));
  EXPECT_THAT(in_windows("Conv", "LOWER"), ElementsAre(1, 5, 9));
  EXPECT_THAT(in_windows("MaxPool", "UPPER"), ElementsAre(2, 4, 5));
  EXPECT_THAT(in_windows("MaxPool", "LOWER"), ElementsAre(1, 3, 5));
  EXPECT_THAT(in_windows("AveragePool", "UPPER"), ElementsAre(1.5, 3.5, 5));
  EXPECT_THAT(in_windows("AveragePool", "LOWER"), ElementsAre(1, 2.5, 4.5));
  EXPECT_THAT(in_windows("AveragePool", "UPPER", ", count_include_pad = 1"), ElementsAre(1.5, 3.5, 2.5));
  EXPECT_THAT(in_windows("LpPool", "UPPER", ", p = 1"), ElementsAre(3, 7, 5));
}

/// Below all numbers of the type, of which -128 and 0 are some.
TEST(MaxPool, OfIntegersPadsByTheLeast) {
  for (const auto& [type, numbers] :
       std::vector<std::pair<std::string, std::vector<double>>>{{"int8", {-5, -128, -7}}, {"uint8", {5, 0, 7}}}) {
    const auto pooled = [&](const std::string& outputs, const std::string& pads) {
      return test::run_onnx("agraph (" + type + "[batch, 1, 3] x) => (" + type + "[batch, 1, t] y) { " + outputs +
                                " = MaxPool <kernel_shape = [2], " + pads + "> (x) }",
                            12, {{"x", numbers}});
    };
    for (const std::string outputs : {"y", "y, i"}) {
      const auto made = pooled(outputs, "pads = [1, 0]"), wide = pooled(outputs, "pads = [0, 1]");
      ASSERT_TRUE(made.ok() && wide.ok()) << (made.ok() ? wide : made).diagnostic().str();
      const double last = std::max(numbers[1], numbers[2]);
      EXPECT_THAT(made->numbers[0], ElementsAre(numbers[0], numbers[0], last)) << type;
      EXPECT_THAT(wide->numbers[0], ElementsAre(numbers[0], last, numbers[2])) << type;
    }
  }
}

TEST(Pad, CutsWhereAmountsAreNegative) {
  EXPECT_THAT(padded("constant", "{-1, 1}"), ElementsAre(2, 3, 0));
  EXPECT_THAT(padded("edge", "{-1, 1}"), ElementsAre(2, 3, 3));
  EXPECT_THAT(padded("reflect", "{1, -1}"), ElementsAre(2, 1, 2));
  EXPECT_THAT(padded("wrap", "{1, -1}"), ElementsAre(2, 1, 2));
}

TEST(Pad, CopiesAlongAnyAxis) {
  const std::string x =
      "agraph () => (float[n] y) <float[2, 2, 1, 2, 1, 1] x = {1, 2, 3, 4, 5, 6, 7, 8}, int64[12] p ="
      " {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, int64[1] f = {-1}> ";
  EXPECT_THAT(numbers_of(x + "{ z = Pad <mode = \"reflect\"> (x, p)\n y = Reshape (z, f) }", 19),
              ElementsAre(3, 4, 1, 2, 3, 4, 7, 8, 5, 6, 7, 8));
  EXPECT_THAT(numbers_of(x + "{ z = Pad <mode = \"edge\"> (x, p)\n y = Reshape (z, f) }", 19),
              ElementsAre(1, 2, 1, 2, 3, 4, 5, 6, 5, 6, 7, 8));
  EXPECT_THAT(numbers_of(x + "{ z = Pad <mode = \"wrap\"> (x, p)\n y = Reshape (z, f) }", 19),
              ElementsAre(3, 4, 1, 2, 3, 4, 7, 8, 5, 6, 7, 8));
}

TEST(Pad, CopiesElementsOfAllTypes) {
  for (const std::string type : {"bool", "int8", "uint8", "int32", "int64", "uint16", "uint32", "uint64"}) {
    const auto copied = [&](const std::string& mode) {
      return numbers_of("agraph () => (" + type + "[2, 5] y) <" + type +
                            "[2, 3] x = {1, 0, 1, 0, 0, 1}, int64[4] p = {0, 1, 0, 1}> { y = Pad <mode = \"" + mode +
                            "\"> (x, p) }",
                        19);
    };
    EXPECT_THAT(copied("edge"), ElementsAre(1, 1, 0, 1, 1, 0, 0, 0, 1, 1)) << type;
    EXPECT_THAT(copied("reflect"), ElementsAre(0, 1, 0, 1, 0, 0, 0, 0, 1, 0)) << type;
    EXPECT_THAT(copied("wrap"), ElementsAre(1, 1, 0, 1, 1, 1, 0, 0, 1, 0)) << type;
  }
  EXPECT_THAT(refusal("agraph (bool[batch, s] x) => (bool[batch, t] y) <int64[4] p = {0, 1, 0, 1}>"
                      " { y = Pad <mode = \"edge\"> (x, p) }",
                      19),
              HasSubstr("Pad of bool in mode 'edge' over axis 1 of [batch,s] by 1 and 1 needs known sizes"));
}

TEST(Pad, WrapsMoreThanOnce) {
  EXPECT_THAT(padded("wrap", "{4, 7}"), ElementsAre(3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1));
}

TEST(Pad, TakesAValueThatIsComputed) {
  const ImportedGraph model(
      "agraph (float[batch, 3] x, float v) => (float[batch, 5] y) <int64[4] p = {0, 1, 0, 1}>"
      " { y = Pad (x, p, v) }",
      13);
  EXPECT_EQ(model.output(), "f32[batch,5] @0");
  EXPECT_THAT(numbers_of("agraph () => (float[4] y) <float[2] x = {1, 2}, int64[2] p = {1, 1}, float[1] v = {4}>"
                         " { w = Exp (v)\n u = Log (w)\n r = Round (u)\n y = Pad (x, p, r) }",
                         13),
              ElementsAre(4, 1, 2, 4));
}

}  // namespace
}  // namespace rannc::frontend
