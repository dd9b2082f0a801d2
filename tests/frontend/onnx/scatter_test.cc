// Operators that write, pick, order and list elements by position: forms, opsets, samples, messages, numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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
using testing::UnorderedElementsAre;

TEST(ScatterElements, KeepsTheSamplesOfAllThree) {
  const std::string head = "agraph (float[batch, 5] x, int64[batch, 2] i, float[batch, 2] u) => (float[batch, 5] y) ";
  const ImportedGraph written(head + "{ y = ScatterElements <axis = -1> (x, i, u) }", 11);
  EXPECT_THAT(written.ops(), ElementsAre("scatter_elements"));
  EXPECT_EQ(written.output(), "f32[batch,5] @0");
  EXPECT_EQ(written.last().text("reduction"), "none");
  EXPECT_THAT(ImportedGraph(head + "{ y = Scatter <axis = 1> (x, i, u) }", 9).ops(), ElementsAre("scatter_elements"));
  const ImportedGraph added(head + "{ y = ScatterElements <axis = 1, reduction = \"add\"> (x, i, u) }", 16);
  EXPECT_EQ(added.last().text("reduction"), "add");
}

TEST(ScatterElements, IsRefusedWhereSamplesWouldMeet) {
  EXPECT_THAT(refusal("agraph (float[batch, 5] x, int64[batch, 5] i, float[batch, 5] u) => (float[batch, 5] y)"
                      " { y = ScatterElements <axis = 0> (x, i, u) }",
                      18),
              HasSubstr("scatter_elements over axis 0 of [batch,5] would mix the samples"));
  EXPECT_THAT(refusal("agraph (float[8, 5] x, int64[batch, 5] i, float[batch, 5] u) => (float[8, 5] y)"
                      " { y = ScatterElements <axis = 1> (x, i, u) }",
                      18),
              HasSubstr("into [8,5] (no samples): a sample must be written into its own place alone"));
  EXPECT_THAT(refusal("agraph (float[batch, 5] x, int64[batch, 2] i, float[batch, 3] u) => (float[batch, 5] y)"
                      " { y = ScatterElements <axis = 1> (x, i, u) }",
                      18),
              HasSubstr("updates have shape [batch,3] where indices [batch,2] into [batch,5] need [batch,2]"));
}

TEST(ScatterElements, ReducesDuplicates) {
  const auto computed = [](const std::string& reduction) {
    return numbers_of(
        "agraph () => (float[4] y) <float[4] x = {1, 2, 3, 4}, int64[3] i = {1, -1, 1}, float[3] u ="
        " {5, 3, -2}> { y = ScatterElements <reduction = \"" +
            reduction + "\"> (x, i, u) }",
        18);
  };
  EXPECT_THAT(computed("add"), ElementsAre(1, 5, 3, 7));
  EXPECT_THAT(computed("mul"), ElementsAre(1, -20, 3, 12));
  EXPECT_THAT(computed("max"), ElementsAre(1, 5, 3, 4));
  EXPECT_THAT(computed("min"), ElementsAre(1, -2, 3, 3));
}

TEST(ScatterNd, WritesBesideTheSamplesOrIntoEachOnesOwnPlace) {
  const ImportedGraph beside(
      "agraph (float[batch, 7, 4] x, int64[2, 1] i, float[2, batch, 4] u) => (float[7, batch, 4] y)"
      " { t = Transpose <perm = [1, 0, 2]> (x)\n y = ScatterND (t, i, u) }",
      18);
  EXPECT_THAT(beside.ops(), ElementsAre("permute", "scatter_nd"));
  EXPECT_EQ(beside.output(), "f32[7,batch,4] @1");
  const ImportedGraph own(
      "agraph (float[batch, 7] x, int64[batch, 3, 2] i, float[batch, 3] u) => (float[batch, 7] y)"
      " { y = ScatterND <reduction = \"add\"> (x, i, u) }",
      18);
  EXPECT_EQ(own.output(), "f32[batch,7] @0");
  EXPECT_THAT(refusal("agraph (float[batch, 7] x, int64[3, 1] i, float[3, 7] u) => (float[batch, 7] y)"
                      " { y = ScatterND (x, i, u) }",
                      18),
              HasSubstr("into [batch,7] (samples on axis 0)"));
  EXPECT_THAT(refusal("agraph (float[9, 7] x, int64[batch, 1] i, float[batch, 7] u) => (float[9, 7] y)"
                      " { y = ScatterND (x, i, u) }",
                      18),
              HasSubstr("into [9,7] (no samples)"));
}

TEST(ScatterNd, ReducesDuplicates) {
  const auto computed = [](const std::string& reduction) {
    return numbers_of(
        "agraph () => (float[3, 2] y) <float[3, 2] x = {1, 2, 3, 4, 5, 6}, int64[3, 1] i = {2, 0, -1},"
        " float[3, 2] u = {7, 8, -1, 1, 2, 9}> { y = ScatterND <reduction = \"" +
            reduction + "\"> (x, i, u) }",
        18);
  };
  EXPECT_THAT(computed("add"), ElementsAre(0, 3, 3, 4, 14, 23));
  EXPECT_THAT(computed("mul"), ElementsAre(-1, 2, 3, 4, 70, 432));
  EXPECT_THAT(computed("max"), ElementsAre(1, 2, 3, 4, 7, 9));
  EXPECT_THAT(computed("min"), ElementsAre(-1, 1, 3, 4, 2, 6));
}

TEST(TensorScatter, WritesFromEachSamplesPlace) {
  const ImportedGraph model(
      "agraph (float[batch, 2, 6, 3] cache, float[batch, 2, 2, 3] new, int64[batch] at) => (float[batch, 2, 6, 3] y)"
      " { y = TensorScatter <mode = \"circular\"> (cache, new, at) }",
      24);
  EXPECT_EQ(model.output(), "f32[batch,2,6,3] @0");
  EXPECT_THAT(numbers_of("agraph () => (float[2, 3, 1] y) <float[2, 3, 1] c = {1, 2, 3, 4, 5, 6}, float[2, 2, 1] u ="
                         " {7, 8, 9, 10}, int64[2] at = {1, 2}> { y = TensorScatter <mode = \"circular\"> (c, u, at) }",
                         24),
              ElementsAre(1, 7, 8, 10, 5, 9));
}

// x[samples, i, j] as exports write it: an index into x with its first axes laid flat.
std::string picked(const std::string& rows, const std::string& stride) {
  return "agraph (float[batch, 2, 3, 2] x, int64[batch] i, int64[batch] j) => (float[batch, 2] y)"
         " <int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3}> { sizes = Shape (x)\n"
         "n = Gather (sizes, zero)\n columns = Gather (sizes, two)\n pages = Gather (sizes, one)\n"
         "sample = Range (zero, n, one)\n page = Mul (i, " +
         stride +
         ")\n in = Add (page, j)\n whole = Mul (columns, pages)\n"
         "first = Mul (sample, whole)\n at = Add (in, first)\n flat = Flatten <axis = " +
         rows + "> (x)\n y = Gather (flat, at) }";
}

TEST(Gather, FromAxesLaidFlatIsByThePlaceInEach) {
  const ImportedGraph indexed(picked("3", "columns"), 17);
  EXPECT_EQ(indexed.output(), "f32[batch,2] @0");
  const auto ops = indexed.ops();
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "gather_nd"), 1);
  std::vector<double> x(24);
  std::iota(x.begin(), x.end(), 0);
  const auto ran = test::run_onnx(picked("3", "columns"), 17, {{"x", x}, {"i", {1, 0}}, {"j", {2, 1}}});
  ASSERT_TRUE(ran.ok()) << ran.diagnostic().str();
  EXPECT_THAT(ran->numbers[0], ElementsAre(10, 11, 14, 15));
}

/// Row 3 of a page of 3 is the next page's, row -1 that of the page before, or of the sample before.
TEST(Gather, FromAxesLaidFlatLeavesNoAxis) {
  for (const auto& [page, row] : std::vector<std::pair<double, double>>{{0, -1}, {1, -1}, {0, 3}, {-1, 2}, {2, 0}}) {
    const auto ran =
        test::run_onnx(picked("3", "columns"), 17, {{"x", std::vector<double>(24)}, {"i", {0, page}}, {"j", {1, row}}});
    ASSERT_FALSE(ran.ok()) << page << ", " << row;
    EXPECT_THAT(ran.diagnostic().str(), HasSubstr("index out of range")) << page << ", " << row;
  }
}

/// Each index has its own axis, also where both together are a place in memory.
TEST(GatherND, RefusesIndicesOutsideTheirAxis) {
  const std::string head = "agraph (float[batch, 2, 3] x, int64[batch, 1, 2] i, float[batch, 1] u) => ";
  const auto gather = [&](const std::vector<double>& at) {
    return test::run_onnx(head + "(float[batch, 1] y) { g = GatherND <batch_dims = 1> (x, i)\n y = Add (g, u) }", 18,
                          {{"x", {0, 1, 2, 3, 4, 5}}, {"i", at}, {"u", {0}}});
  };
  const auto right = gather({-1, 0});
  ASSERT_TRUE(right.ok()) << right.diagnostic().str();
  EXPECT_THAT(right->numbers[0], ElementsAre(3));
  for (const auto& at : std::vector<std::vector<double>>{{0, 3}, {1, -4}, {2, -1}, {-3, 4}}) {
    EXPECT_FALSE(gather(at).ok()) << at[0] << ", " << at[1];
  }
}

TEST(ScatterND, RefusesIndicesOutsideTheirAxis) {
  const auto scatter = [&](const std::vector<double>& at) {
    return test::run_onnx(
        "agraph (float[2, 3] x, int64[1, 2] i, float[1] u) => (float[2, 3] y) { y = ScatterND (x, i, u) }", 18,
        {{"x", {0, 1, 2, 3, 4, 5}}, {"i", at}, {"u", {9}}});
  };
  EXPECT_TRUE(scatter({1, -1}).ok());
  EXPECT_FALSE(scatter({0, 3}).ok());
}

TEST(Gather, FromAxesLaidFlatIsRefusedWhereTheIndexIsAnotherOne) {
  const auto ran =
      test::run_onnx(picked("3", "two"), 17, {{"x", std::vector<double>(24)}, {"i", {1, 0}}, {"j", {2, 1}}});
  ASSERT_FALSE(ran.ok());
  EXPECT_THAT(ran.diagnostic().message, HasSubstr("not provably each sample's own index"));
}

TEST(TopK, TakesItsCountAsAttributeThenAsOperand) {
  const ImportedGraph old(
      "agraph (float[batch, 9] x) => (float[batch, 3] v, int64[batch, 3] i)"
      " { v, i = TopK <k = 3> (x) }",
      9);
  EXPECT_THAT(old.ops(), ElementsAre("topk"));
  EXPECT_EQ(old.output(), "f32[batch,3] @0");
  EXPECT_EQ(old.output(1), "i64[batch,3] @0");
  const ImportedGraph later(
      "agraph (float[batch, 9, 4] x) => (float[batch, 2, 4] v, int64[batch, 2, 4] i)"
      " <int64[1] k = {2}> { v, i = TopK <axis = 1, largest = 0> (x, k) }",
      11);
  EXPECT_FALSE(later.last().flag("largest", true));
  EXPECT_EQ(later.output(), "f32[batch,2,4] @0");
  EXPECT_THAT(refusal("agraph (float[batch, 9] x, int64[1] k) => (float[batch, n] v, int64[batch, n] i)"
                      " { v, i = TopK (x, k) }",
                      11),
              HasSubstr("'k' must be known before the model runs"));
  EXPECT_THAT(refusal("agraph (float[batch, 9] x) => (float[9, 9] v, int64[9, 9] i) <int64[1] k = {9}>"
                      " { v, i = TopK <axis = 0> (x, k) }",
                      11),
              HasSubstr("topk over axis 0 of [batch,9] would mix the samples"));
  EXPECT_THAT(refusal("agraph (float[batch, 9] x) => (float[batch, 10] v, int64[batch, 10] i) <int64[1] k = {10}>"
                      " { v, i = TopK (x, k) }",
                      11),
              HasSubstr("the 10 first of axis 1 of [batch,9], which has no more than 9"));
}

TEST(ReduceLogSumExp, OfNothingButInfinitiesIsNoQuotientOfThem) {
  const std::string model =
      "agraph () => (float[4] y) <float[4, 2] x = {0, 0, 0, 1, 1, 1, 0, 1}>"
      " { low = Log (x)\n ";
  EXPECT_THAT(numbers_of(model + "y = ReduceLogSumExp <axes = [1], keepdims = 0> (low) }", 13),
              ElementsAre(-HUGE_VAL, 0, testing::DoubleNear(std::log(2), 1e-6), 0));
  EXPECT_THAT(numbers_of(model + "high = Neg (low)\n y = ReduceLogSumExp <axes = [1], keepdims = 0> (high) }", 13),
              ElementsAre(HUGE_VAL, HUGE_VAL, testing::DoubleNear(std::log(2), 1e-6), HUGE_VAL));
}

TEST(TopK, GivesTheFirstOfEqualElementsFirst) {
  const std::string model = "agraph () => (float[4] v, int64[4] i) <float[6] x = {2, 5, 5, 1, 5, 2}, int64[1] k = {4}>";
  EXPECT_THAT(numbers_of(model + " { v, i = TopK (x, k) }", 11, 1), ElementsAre(1, 2, 4, 0));
  EXPECT_THAT(numbers_of(model + " { v, i = TopK <largest = 0> (x, k) }", 11, 1), ElementsAre(3, 0, 5, 1));
}

TEST(ArgExtremes, MayTakeTheLast) {
  const std::string model = "agraph () => (int64[1] y) <float[5] x = {3, 1, 3, 1, 2}>";
  EXPECT_THAT(numbers_of(model + " { y = ArgMax (x) }", 13), ElementsAre(0));
  EXPECT_THAT(numbers_of(model + " { y = ArgMax <select_last_index = 1> (x) }", 13), ElementsAre(2));
  EXPECT_THAT(numbers_of(model + " { y = ArgMin <select_last_index = 1> (x) }", 13), ElementsAre(3));
}

TEST(Hardmax, IsOverAllAxesFromOneOnBeforeOpset13) {
  const std::string model = "agraph () => (float[1, 2, 2] y) <float[1, 2, 2] x = {1, 4, 4, 2}>";
  EXPECT_THAT(numbers_of(model + " { y = Hardmax (x) }", 11), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(numbers_of(model + " { y = Hardmax (x) }", 13), ElementsAre(0, 1, 1, 0));
}

TEST(Compress, NeedsAKnownCondition) {
  EXPECT_EQ(ImportedGraph("agraph (float[batch, 4] x) => (float[batch, 2] y) <bool[3] c = {1, 0, 1}>"
                          " { y = Compress <axis = 1> (x, c) }",
                          11)
                .output(),
            "f32[batch,2] @0");
  EXPECT_THAT(
      refusal("agraph (float[batch, 4] x, bool[4] c) => (float[batch, n] y) { y = Compress <axis = 1> (x, c) }", 11),
      HasSubstr("'c' must be known before the model runs: the size of the result depends on it"));
}

TEST(NonZeroAndUnique, AreThoseOfConstants) {
  EXPECT_THAT(numbers_of("agraph () => (int64[2, 4] y) <int64[2] s = {2, 2}> "
                         "{ x = ConstantOfShape <value = float[1] {1}> (s)\n y = NonZero (x) }",
                         13),
              ElementsAre(0, 0, 1, 1, 0, 1, 0, 1));
  EXPECT_THAT(numbers_of("agraph () => (int64[2, 3] y) <float[2, 2] x = {1, 0, 2, 3}> { y = NonZero (x) }", 13),
              ElementsAre(0, 1, 1, 0, 0, 1));
  const std::string model =
      "agraph () => (float[3] y, int64[3] a, int64[5] b, int64[3] c)"
      " <float[5] x = {2, 1, 1, 3, 2}> ";
  const std::string sorted = model + "{ y, a, b, c = Unique (x) }",
                    as_found = model + "{ y, a, b, c = Unique <sorted = 0> (x) }";
  EXPECT_THAT(numbers_of(sorted, 11), ElementsAre(1, 2, 3));
  EXPECT_THAT(numbers_of(sorted, 11, 1), ElementsAre(1, 0, 3));
  EXPECT_THAT(numbers_of(sorted, 11, 2), ElementsAre(1, 0, 0, 2, 1));
  EXPECT_THAT(numbers_of(sorted, 11, 3), ElementsAre(2, 2, 1));
  EXPECT_THAT(numbers_of(as_found, 11), ElementsAre(2, 1, 3));
  EXPECT_THAT(numbers_of(as_found, 11, 1), ElementsAre(0, 1, 3));
  EXPECT_THAT(numbers_of("agraph () => (float[2, 2] y) <float[2, 3] x = {1, 2, 1, 3, 4, 3}>"
                         " { y = Unique <axis = 1> (x) }",
                         11),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(refusal("agraph (float[4] x) => (int64[1, n] y) { y = NonZero (x) }", 13),
              HasSubstr("is an output: only rows that are computed one by one"));
  EXPECT_THAT(refusal("agraph (float[4] x) => (float[n] y) { y = Unique (x) }", 13), HasSubstr("Unique: 'x' must be"));
}

TEST(ReverseSequence, TurnsTheFirstOfEachSample) {
  const std::string model =
      "agraph () => (float[2, 3] y) <float[2, 3] x = {1, 2, 3, 4, 5, 6}, int64[2] n = {2, 3},"
      " int64[3] m = {1, 2, 2}>";
  EXPECT_THAT(numbers_of(model + " { y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, n) }", 10),
              ElementsAre(2, 1, 3, 6, 5, 4));
  EXPECT_THAT(numbers_of(model + " { y = ReverseSequence (x, m) }", 10), ElementsAre(1, 5, 6, 4, 2, 3));
  const ImportedGraph samples(
      "agraph (float[batch, 7, 2] x, int64[batch] n) => (float[batch, 7, 2] y)"
      " { y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, n) }",
      10);
  EXPECT_EQ(samples.output(), "f32[batch,7,2] @0");
}

TEST(CumProd, MultipliesWhatStandsBefore) {
  const std::string model = "agraph () => (float[4] y) <float[4] x = {2, 3, 0.5, 4}, int64 a = {0}>";
  EXPECT_THAT(numbers_of(model + " { y = CumProd (x, a) }", 26), ElementsAre(2, 6, 3, 12));
  EXPECT_THAT(numbers_of(model + " { y = CumProd <exclusive = 1> (x, a) }", 26), ElementsAre(1, 2, 6, 3));
  EXPECT_THAT(numbers_of(model + " { y = CumProd <reverse = 1> (x, a) }", 26), ElementsAre(12, 6, 2, 4));
  EXPECT_THAT(numbers_of(model + " { y = CumProd <reverse = 1, exclusive = 1> (x, a) }", 26), ElementsAre(6, 2, 4, 1));
}

TEST(EyeLike, IsOfSizesAlone) {
  EXPECT_THAT(numbers_of("agraph () => (float[2, 3] y) <float[2, 3] x = {1, 2, 3, 4, 5, 6}>"
                         " { y = EyeLike <k = 1> (x) }",
                         9),
              ElementsAre(0, 1, 0, 0, 0, 1));
  EXPECT_THAT(refusal("agraph (float[batch, 3] x) => (float[batch, 3] y) { y = EyeLike (x) }", 9),
              HasSubstr("EyeLike of [batch,3] depends on the numbers of its samples"));
}

TEST(OneHot, HasADepthThatIsKnown) {
  EXPECT_EQ(ImportedGraph("agraph (int64[batch, n] i, float[2] v) => (float[batch, n, n] y)"
                          " { s = Shape <start = 1> (i)\n y = OneHot (i, s, v) }",
                          15)
                .output(),
            "f32[batch,n,n] @0");
  EXPECT_THAT(
      refusal("agraph (int64[batch] i, int64 d, float[2] v) => (float[batch, n] y) { y = OneHot (i, d, v) }", 11),
      HasSubstr("OneHot: 'd' must be known before the model runs"));
}

}  // namespace
}  // namespace rannc::frontend
