// Rows that a mask picks, computed and written back: as all rows under `Where`, with gradients, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/frontend/support/compare.h"
#include "tests/frontend/support/imported_graph.h"
#include "tests/frontend/support/samples_apart.h"

namespace rannc::frontend {
namespace {

using test::Numbers;
using test::refusal;
using test::run_onnx;
using test::spread;
using testing::HasSubstr;

constexpr int kOpset = 18;

/// What differs between two models of equal inputs: their outputs, or one's gradients from the tape's. Empty: nothing.
std::string difference(const std::string& graph, const std::string& expected, const Numbers& numbers) {
  const auto made = run_onnx(graph, kOpset, numbers);
  if (!made.ok()) return made.diagnostic().str();
  const auto right = run_onnx(expected, kOpset, numbers);
  if (!right.ok()) return "expected: " + right.diagnostic().str();
  for (size_t i = 0; i < made->outputs.size(); ++i) {
    const std::string wrong = test::difference(made->outputs[i], right->outputs[i]);
    if (!wrong.empty()) return wrong;
  }
  const auto check = test::check_gradients(made->graph, made->inputs);
  return check.ok() ? check->fault : check.diagnostic().str();
}

const std::string kHead =
    "agraph (double[batch, 4] x, int64[batch] kind, double[4, 4] w) => (double[batch, 4] y)"
    " <int64 zero = {0}, int64[1] first = {0}, int64[1] all = {-1}, int64[1] axis1 = {1}, int64[1] two = {2},"
    " int64[1] big = {1000000}, double nought = {0}> ";
const Numbers kNumbers = {{"x", spread(20)}, {"kind", {0, 1, 0, 2, 0}}, {"w", spread(16, 2)}};
const std::string kWhere = kHead +
                           "{ m = Equal(kind, zero)\n c = Unsqueeze(m, axis1)\n h = MatMul(x, w)\n r = Relu(h)\n"
                           " y = Where(c, r, x) }";

struct Form {
  const char *name, *nodes;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }
std::string name_of(const testing::TestParamInfo<Form>& form) { return form.param.name; }

class WrittenByMask : public testing::TestWithParam<Form> {};

TEST_P(WrittenByMask, IsWhere) { EXPECT_EQ(difference(kHead + GetParam().nodes, kWhere, kNumbers), ""); }

INSTANTIATE_TEST_SUITE_P(
    PickedRows, WrittenByMask,
    testing::Values(
        Form{"Tuples",
             "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Transpose <perm = [1, 0]> (n)\n g = GatherND(x, p)\n"
             " h = MatMul(g, w)\n r = Relu(h)\n y = ScatterND(x, p, r) }"},
        Form{"OnePlacePerRow",
             "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Squeeze(n, first)\n g = Gather(x, p)\n h = MatMul(g, w)\n"
             " r = Relu(h)\n u = Unsqueeze(p, axis1)\n y = ScatterND(x, u, r) }"},
        // As torch.onnx.export(dynamo=False) writes x[mask] = …
        Form{"EveryElement",
             "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Transpose <perm = [1, 0]> (n)\n g = GatherND(x, p)\n"
             " h = MatMul(g, w)\n r = Relu(h)\n c = Unsqueeze(m, axis1)\n s = Shape(x)\n e = Expand(c, s)\n"
             " nn = NonZero(e)\n pp = Transpose <perm = [1, 0]> (nn)\n f = Reshape(r, all)\n ss = Shape(pp)\n"
             " k = Gather(ss, first)\n q = Slice(f, first, k, first)\n y = ScatterND(x, pp, q) }"},
        // As torch.onnx.export(dynamo=True) does, which counts the rows by a sum.
        Form{"CountedByASum",
             "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Transpose <perm = [1, 0]> (n)\n g = GatherND(x, p)\n"
             " h = MatMul(g, w)\n r = Relu(h)\n c = Unsqueeze(m, axis1)\n s = Shape(x)\n e = Expand(c, s)\n"
             " nn = NonZero(e)\n pp = Transpose <perm = [1, 0]> (nn)\n flat = Reshape(m, all)\n"
             " i = Cast <to = 7> (flat)\n k = ReduceSum <keepdims = 1> (i)\n t = Slice(s, axis1, two, first)\n"
             " to = Concat <axis = 0> (k, t)\n v = Expand(r, to)\n f = Reshape(v, all)\n y = ScatterND(x, pp, f) }"},
        Form{"MaskComputedTwice",
             "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Squeeze(n, first)\n g = Gather(x, p)\n h = MatMul(g, w)\n"
             " r = Relu(h)\n m2 = Equal(kind, zero)\n n2 = NonZero(m2)\n p2 = Transpose <perm = [1, 0]> (n2)\n"
             " y = ScatterND(x, p2, r) }"}),
    name_of);

struct Reduction {
  const char *name, *picked, *all;
};
void PrintTo(const Reduction& reduction, std::ostream* out) { *out << reduction.name; }

class Reduced : public testing::TestWithParam<Reduction> {};

/// As the losses of masked tokens are.
TEST_P(Reduced, CountsPickedRowsAlone) {
  const std::string picked =
      "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Squeeze(n, first)\n g = Gather(x, p)\n h = MatMul(g, w)\n"
      " l = Gather(other, p)\n";
  const std::string all =
      "{ m = Equal(kind, zero)\n c = Unsqueeze(m, axis1)\n a = MatMul(x, w)\n h = Where(c, a, nought)\n"
      " i = Cast <to = 11> (m)\n count = ReduceSum <keepdims = 0> (i)\n l = Where(m, other, less)\n";
  const std::string head =
      "agraph (double[5, 4] x, int64[5] kind, int64[5] other, double[4, 4] w) => (double[5, 4] y)"
      " <int64 zero = {0}, int64 less = {-1}, int64[1] first = {0}, int64[1] axis1 = {1}, double nought = {0},"
      " double four = {4}> ";
  Numbers numbers = kNumbers;
  numbers["other"] = {3, 1, 0, 2, 2};
  EXPECT_EQ(difference(head + picked + GetParam().picked, head + all + GetParam().all, numbers), "");
}

INSTANTIATE_TEST_SUITE_P(
    PickedRows, Reduced,
    testing::Values(
        Reduction{"Sum", "s = ReduceSum <keepdims = 0> (h)\n y = Add(x, s) }",
                  "s = ReduceSum <keepdims = 0> (h)\n y = Add(x, s) }"},
        Reduction{"SumOfRows", "s = ReduceSum <keepdims = 1> (h, first)\n y = Mul(x, s) }",
                  "s = ReduceSum <keepdims = 1> (h, first)\n y = Mul(x, s) }"},
        Reduction{"Mean", "s = ReduceMean <keepdims = 0> (h)\n y = Mul(x, s) }",
                  "t = ReduceSum <keepdims = 0> (h)\n k = Mul(count, four)\n s = Div(t, k)\n y = Mul(x, s) }"},
        Reduction{"MeanOfRows", "s = ReduceMean <keepdims = 0> (h, first)\n y = Mul(x, s) }",
                  "t = ReduceSum <keepdims = 0> (h, first)\n s = Div(t, count)\n y = Mul(x, s) }"},
        Reduction{"CrossEntropy", "s = SoftmaxCrossEntropyLoss (h, l)\n y = Mul(x, s) }",
                  "s = SoftmaxCrossEntropyLoss <ignore_index = -1> (h, l)\n y = Mul(x, s) }"},
        Reduction{"CrossEntropyOfSomeLabels", "s = SoftmaxCrossEntropyLoss <ignore_index = 2> (h, l)\n y = Mul(x, s) }",
                  "two = Constant <value_int = 2> ()\n b = Equal(l, two)\n ll = Where(b, less, l)\n"
                  " s = SoftmaxCrossEntropyLoss <ignore_index = -1> (h, ll)\n y = Mul(x, s) }"}),
    [](const testing::TestParamInfo<Reduction>& reduction) { return reduction.param.name; });

/// Of more elements than a float16 can count.
TEST(PickedRows, MeansOfSixteenBitsAreFinite) {
  const std::string head =
      "agraph (double[5, 4] x, int64[5] kind) => (double s) <int64 zero = {0}, int64[1] first = {0},"
      " int64[2] many = {1, 20000}> { m = Equal(kind, zero)\n n = NonZero(m)\n p = Squeeze(n, first)\n"
      " g = Gather(x, p)\n ";
  const Numbers numbers = {{"x", spread(20)}, {"kind", {0, 1, 0, 2, 0}}};
  const auto wide = run_onnx(head + "s = ReduceMean <keepdims = 0> (g) }", kOpset, numbers);
  const auto narrow = run_onnx(head +
                                   "t = Tile(g, many)\n h = Cast <to = 10> (t)\n r = ReduceMean <keepdims = 0> (h)\n"
                                   " s = Cast <to = 11> (r) }",
                               kOpset, numbers);
  ASSERT_TRUE(wide.ok()) << wide.diagnostic().str();
  ASSERT_TRUE(narrow.ok()) << narrow.diagnostic().str();
  EXPECT_EQ(test::difference(narrow->outputs[0], wide->outputs[0]), "");
}

/// Adapters or experts that each compute their rows.
TEST(PickedRows, OfSeveralMasksAreWrittenOneAfterAnother) {
  const std::string picked =
      "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Transpose <perm = [1, 0]> (n)\n g = GatherND(x, p)\n"
      " h = MatMul(g, w)\n a = ScatterND(x, p, h)\n one = Constant <value_int = 1> ()\n m1 = Equal(kind, one)\n"
      " n1 = NonZero(m1)\n p1 = Transpose <perm = [1, 0]> (n1)\n g1 = GatherND(x, p1)\n t = Tanh(g1)\n"
      " y = ScatterND <reduction = \"add\"> (a, p1, t) }";
  const std::string where =
      "{ m = Equal(kind, zero)\n c = Unsqueeze(m, axis1)\n h = MatMul(x, w)\n a = Where(c, h, x)\n"
      " one = Constant <value_int = 1> ()\n m1 = Equal(kind, one)\n c1 = Unsqueeze(m1, axis1)\n t = Tanh(x)\n"
      " z = Where(c1, t, nought)\n y = Add(a, z) }";
  EXPECT_EQ(difference(kHead + picked, kHead + where, kNumbers), "");
}

/// As torch.onnx.export(dynamo=False) writes index_add_ of the rows that a token's choices of experts pick.
TEST(PickedRows, OfTwoAxesAreAddedOverTheAxisThatIsNotWritten) {
  const std::string head =
      "agraph (double[batch, 4] x, int64[batch, 2] choice, double[batch, 2] weight, double[4, 4] w) =>"
      " (double[batch, 4] y) <int64 zero = {0}, int64[2] halves = {1, 1}, int64[1] first = {0}, int64 two = {2},"
      " int64[1] axis1 = {1}, int64[1] axis2 = {2}, int64[1] all = {-1}, int64[2] column = {-1, 1}, double nought = "
      "{0}> ";
  const Numbers numbers = {
      {"x", spread(12)}, {"choice", {0, 1, 2, 0, 1, 2}}, {"weight", spread(6, 3)}, {"w", spread(16, 2)}};
  const std::string picked =
      "{ m = Equal(choice, zero)\n mt = Transpose <perm = [1, 0]> (m)\n n = NonZero(mt)\n"
      " p = Transpose <perm = [1, 0]> (n)\n k, t = Split <axis = 1> (p, halves)\n ks = Squeeze(k, axis1)\n"
      " ts = Squeeze(t, axis1)\n g = Gather(x, ts)\n h = MatMul(g, w)\n flat = Reshape(weight, column)\n"
      " at = Mul(ts, two)\n at2 = Add(at, ks)\n f = Gather(flat, at2)\n o = Mul(h, f)\n s = Shape(x)\n"
      " b = ConstantOfShape(s)\n z = CastLike(b, x)\n u = Unsqueeze(ts, axis1)\n os = Shape(o)\n i = Expand(u, os)\n"
      " r = ScatterElements <axis = 0> (z, i, o)\n y = Add(x, r) }";
  const std::string where =
      "{ m = Equal(choice, zero)\n v = Where(m, weight, nought)\n s = ReduceSum <keepdims = 1> (v, axis1)\n"
      " h = MatMul(x, w)\n o = Mul(h, s)\n y = Add(x, o) }";
  EXPECT_EQ(difference(head + picked, head + where, numbers), "");
}

/// The loop over the experts that are hit, as a trace in which all three were.
TEST(PickedRows, OfExpertsThatAreHit) {
  const std::string head =
      "agraph (double[batch, 4] x, double[batch, 3] logits, double[3, 4, 4] w) => (double[batch, 4] y)"
      " <int64 depth = {3}, int64[2] values = {0, 1}, int64[1] last = {-1}, int64 zero = {0}, int64[3] ones = {1, 1, "
      "1},"
      " int64[2] two = {1, 1}, int64[1] first = {0}, int64[1] axis1 = {1}> ";
  const std::string experts =
      "{ e = ArgMax <axis = 1, keepdims = 0> (logits)\n o = OneHot <axis = -1> (e, depth, values)\n"
      " mask = Transpose <perm = [1, 0]> (o)\n s = ReduceSum <keepdims = 0> (mask, last)\n hit = Greater(s, zero)\n"
      " n = NonZero(hit)\n p = Transpose <perm = [1, 0]> (n)\n ";
  const auto expert = [](const std::string& i, const std::string& into, const std::string& out) {
    return "r" + i + " = Squeeze(h" + i + ", first)\n f" + i + " = Gather <axis = 0> (mask, r" + i + ")\n q" + i +
           " = Squeeze(f" + i + ", first)\n b" + i + " = Cast <to = 9> (q" + i + ")\n n" + i + " = NonZero(b" + i +
           ")\n t" + i + " = Squeeze(n" + i + ", first)\n g" + i + " = Gather(x, t" + i + ")\n v" + i +
           " = Gather <axis = 0> (w, r" + i + ")\n u" + i + " = Squeeze(v" + i + ", first)\n o" + i + " = MatMul(g" +
           i + ", u" + i + ")\n k" + i + " = Unsqueeze(t" + i + ", axis1)\n " + out +
           " = ScatterND <reduction = \"add\"> (" + into + ", k" + i + ", o" + i + ")\n ";
  };
  const Numbers numbers = {{"x", spread(12)}, {"logits", {1, 0, 0, 0, 1, 0, 2, 0, 0}}, {"w", spread(48, 2)}};
  const std::string looped = experts + "h0, h1, h2 = Split <axis = 0> (p, ones)\n " + expert("0", "x", "a") +
                             expert("1", "a", "b") + expert("2", "b", "y") + "}";
  const std::string gathered =
      "{ e = ArgMax <axis = 1, keepdims = 0> (logits)\n v = Gather <axis = 0> (w, e)\n c = Unsqueeze(x, axis1)\n"
      " m = MatMul(c, v)\n s = Squeeze(m, axis1)\n y = Add(x, s) }";
  EXPECT_EQ(difference(head + looped, head + gathered, numbers), "");
  // A trace in which one of them was not hit does not say what it computes.
  const std::string fewer =
      experts + "h0, h1 = Split <axis = 0> (p, two)\n " + expert("0", "x", "a") + expert("1", "a", "y") + "}";
  EXPECT_THAT(refusal(head + fewer, kOpset), HasSubstr("the exporter recorded 2 of 3 experts"));
  // What is not computed from rows of the expert happens only if it is hit.
  const std::string beside = experts +
                             "h0, h1, h2 = Split <axis = 0> (p, ones)\n r0 = Squeeze(h0, first)\n"
                             " v0 = Gather <axis = 0> (w, r0)\n u0 = Squeeze(v0, first)\n y = MatMul(x, u0) }";
  EXPECT_THAT(refusal(head + beside, kOpset), HasSubstr("depends on which rows of a mask are not all zero"));
}

/// As torch.onnx.export(dynamo=True) writes a sort of tokens by expert that is undone, such as JetMoE's.
TEST(PickedRows, OfATokenSortedByExpertAreItsOwn) {
  const std::string head =
      "agraph (double[batch, 4] x, double[batch, 3] logits, double[3, 4, 4] w) => (double[batch, 4] y)"
      " <int64[1] two = {2}, int64[1] first = {0}, int64[1] axis1 = {1}, int64[2] axes12 = {1, 2}, int64[1] axis2 = "
      "{2},"
      " int64[1] all = {-1}, int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {2}, float half = {2}, int64[1] last = {2},"
      " int64[1] end = {3}> ";
  const std::string sorted =
      "{ v, c = TopK <axis = 1> (logits, two)\n s = Shape(logits)\n z = ConstantOfShape(s)\n cs = Shape(c)\n"
      " o = ConstantOfShape <value = float[1] {1}> (cs)\n g = ScatterElements <axis = 1> (z, c, o)\n"
      " gi = Cast <to = 7> (g)\n n = ReduceSum <keepdims = 0> (gi, first)\n n0 = Slice(n, first, axis1, first)\n"
      " n1 = Slice(n, axis1, two, first)\n n2 = Slice(n, last, end, first)\n sizes = Concat <axis = 0> (n0, n1, n2)\n"
      " f = Reshape(c, all)\n fs = Shape(f)\n sv, i = TopK <axis = 0, largest = 0> (f, fs)\n fi = Cast <to = 1> (i)\n"
      " q = Div(fi, half)\n qa = Abs(q)\n qf = Floor(qa)\n qs = Sign(q)\n qm = Mul(qf, qs)\n b = Cast <to = 7> (qm)\n"
      " xs = Gather(x, b)\n p0, p1, p2 = Split <axis = 0> (xs, SIZES)\n w0 = Gather <axis = 0> (w, i0)\n"
      " w1 = Gather <axis = 0> (w, i1)\n w2 = Gather <axis = 0> (w, i2)\n h0 = MatMul(p0, w0)\n h1 = MatMul(p1, w1)\n"
      " h2 = MatMul(p2, w2)\n h = Concat <axis = 0> (h0, h1, h2)\n vf = Reshape(v, all)\n gv = Gather(vf, i)\n"
      " gu = Unsqueeze(gv, axis1)\n m = Mul(h, gu)\n bu = Unsqueeze(b, axis1)\n"
      " y = ScatterND <reduction = \"add\"> (x, bu, m) }";
  const auto with = [&](const std::string& sizes) {
    std::string text = sorted;
    return head + text.replace(text.find("SIZES"), 5, sizes);
  };
  const std::string gathered =
      "{ v, c = TopK <axis = 1> (logits, two)\n wc = Gather <axis = 0> (w, c)\n xu = Unsqueeze(x, axes12)\n"
      " m = MatMul(xu, wc)\n s = Squeeze(m, axis2)\n vu = Unsqueeze(v, axis2)\n p = Mul(s, vu)\n"
      " r = ReduceSum <keepdims = 0> (p, axis1)\n y = Add(x, r) }";
  const Numbers numbers = {{"x", spread(12)}, {"logits", {1, 3, 2, 5, 1, 0, 2, 0, 4}}, {"w", spread(48, 2)}};
  EXPECT_EQ(difference(with("sizes"), head + gathered, numbers), "");
  const std::string swapped = with("turned");
  std::string text = swapped;
  text.replace(text.find(" f = Reshape"), 1, " turned = Concat <axis = 0> (n1, n0, n2)\n ");
  EXPECT_THAT(refusal(text, kOpset), HasSubstr("joins rows that different masks pick"));
}

/// Numbers that only rows that are not picked have must reach neither results nor gradients.
TEST(PickedRows, KeepWhatOthersContainToThemselves) {
  const std::string nodes =
      "{ m = Greater(x, nought)\n n = NonZero(m)\n p = Transpose <perm = [1, 0]> (n)\n g = GatherND(x, p)\n"
      " l = Log(g)\n q = Sqrt(g)\n d = Div(l, q)\n y = ScatterND(x, p, d) }";
  const std::string head = "agraph (double[batch, 4] x) => (double[batch, 4] y) <double nought = {0}> ";
  const double nan = std::nan(""), infinity = HUGE_VAL;
  const auto made = run_onnx(head + nodes, kOpset, {{"x", {1, 0, -1, 4, -infinity, 0.25, 0, 9}}});
  ASSERT_TRUE(made.ok()) << made.diagnostic().str();
  EXPECT_DOUBLE_EQ(made->numbers[0][3], std::log(4) / 2);
  EXPECT_EQ(made->numbers[0][4], -infinity);
  const auto check = test::check_gradients(made->graph, made->inputs);
  ASSERT_TRUE(check.ok()) << check.diagnostic().str();
  EXPECT_EQ(check->fault, "");
  // A NaN in a row that is not picked does not reach the weights.
  const auto linear = run_onnx(
      kHead +
          "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Squeeze(n, first)\n g = Gather(x, p)\n h = MatMul(g, w)\n"
          " u = Unsqueeze(p, axis1)\n s = Shape(x)\n b = ConstantOfShape(s)\n z = CastLike(b, x)\n y = ScatterND(z, u, "
          "h) }",
      kOpset, {{"x", {nan, 1, 1, 1, 1, 2, 3, 4}}, {"kind", {1, 0}}, {"w", spread(16, 2)}});
  ASSERT_TRUE(linear.ok()) << linear.diagnostic().str();
  for (const double number : linear->numbers[0]) EXPECT_TRUE(std::isfinite(number));
  const auto weights = test::check_gradients(linear->graph, linear->inputs);
  ASSERT_TRUE(weights.ok()) << weights.diagnostic().str();
  EXPECT_EQ(weights->fault, "");
}

struct Refused {
  const char *name, *nodes, *message;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class RowsRefused : public testing::TestWithParam<Refused> {};

TEST_P(RowsRefused, NamesTheOperator) {
  EXPECT_THAT(refusal(kHead + GetParam().nodes, kOpset), HasSubstr(GetParam().message));
}

#define RANNC_PICKED "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Squeeze(n, first)\n g = Gather(x, p)\n "

INSTANTIATE_TEST_SUITE_P(
    PickedRows, RowsRefused,
    testing::Values(
        Refused{"Reduced", RANNC_PICKED "s = ReduceMax <keepdims = 1> (g, first)\n y = Add(x, s) }",
                "(core.amax) computes over rows that a mask picks"},
        Refused{"Multiplied", RANNC_PICKED "t = Transpose <perm = [1, 0]> (g)\n s = MatMul(t, g)\n y = MatMul(x, s) }",
                "(core.matmul) computes over rows that a mask picks"},
        Refused{"Counted", RANNC_PICKED "s = Shape(p)\n i = Squeeze(s, first)\n f = CastLike(i, x)\n y = Div(x, f) }",
                "(core.shape) computes with the places of rows that a mask picks"},
        Refused{"SummedUp", RANNC_PICKED "s = CumSum(g, zero)\n u = Unsqueeze(p, axis1)\n y = ScatterND(x, u, s) }",
                "(core.cumsum) does not compute rows one by one"},
        Refused{"Dropped",
                RANNC_PICKED "s = Slice(g, axis1, big, first)\n q = Slice(p, axis1, big, first)\n"
                             " u = Unsqueeze(q, axis1)\n y = ScatterND(x, u, s) }",
                "(core.slice) does not compute rows one by one"},
        Refused{"AnotherMask",
                RANNC_PICKED "one = Constant <value_int = 1> ()\n m1 = Equal(kind, one)\n n1 = NonZero(m1)\n"
                             " u = Transpose <perm = [1, 0]> (n1)\n y = ScatterND(x, u, g) }",
                "[picked"},
        Refused{"Output", "{ m = Equal(kind, zero)\n n = NonZero(m)\n p = Squeeze(n, first)\n y = Gather(x, p) }",
                "is an output"},
        Refused{"BesideAllRows", RANNC_PICKED "s = Add(g, x)\n u = Unsqueeze(p, axis1)\n y = ScatterND(x, u, s) }",
                "picked.rows"}),
    [](const testing::TestParamInfo<Refused>& refused) { return refused.param.name; });

}  // namespace
}  // namespace rannc::frontend
