// Elementwise operators beside the common ones: what they become, and numbers at the edges of their types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/frontend/support/imported_graph.h"
#include "tests/frontend/support/numbers_of.h"
#include "tests/frontend/support/onnx_run.h"

namespace rannc::frontend {
namespace {

using test::ImportedGraph;
using test::numbers_of;
using test::refusal;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

/// A call of an operator on operands of `small_floats`, and the shape of its result.
struct SmallCall {
  std::string call, to;
  int opset = 24;
};

/// What a call makes of numbers that a type of 16 bits has: computed in that type, or in float32 and then rounded.
std::vector<double> small_floats(const SmallCall& of, const std::string& type, bool is_wide) {
  const std::string round = type == "float16" ? "<to = 10>" : "<to = 16>", make = is_wide ? "<to = 1>" : round;
  const std::string stored =
      "<float zero = {0}, float one = {1}, float end = {96}, float rate = {0.37}, float three = {3}, float part = "
      "{0.09}, "
      "int64[2] rows = {4, 24}, int64[2] columns = {24, 4}, int64[2] four = {4, 4}, int64[4] images = {1, 4, 4, 6}, "
      "int64[1] from = {0}, int64[1] to = {16}> ";
  const std::string operands =
      "r = Range (zero, end, one)\n angle = Mul (r, rate)\n wave = Sin (angle)\n exact = Mul (wave, three)\n "
      "some = Cast " +
      round + " (exact)\n x = Cast " + make +
      " (some)\n parts = Mul (r, part)\n "
      "few = Cast " +
      round + " (parts)\n near = Cast " + make +
      " (few)\n left = Reshape (x, rows)\n "
      "right = Reshape (x, columns)\n positive = Abs (left)\n first = Slice (x, from, to)\n "
      "square = Reshape (first, four)\n image = Reshape (x, images)\n ";
  const std::string result = "made = " + of.call + "\n y = Cast " + round + " (made)";
  return numbers_of("agraph () => (" + type + "[" + of.to + "] y) " + stored + "{ " + operands + result + " }",
                    of.opset);
}

/// ONNX Runtime computes operators of 16-bit floats in float32 and rounds the results.
TEST(SmallFloats, AreRoundedOnce) {
  for (const SmallCall& call : std::vector<SmallCall>{
           {"Selu (x)", "96"},
           {"Celu <alpha = 0.7> (x)", "96"},
           {"Mish (x)", "96"},
           {"Swish <alpha = 1.7> (x)", "96"},
           {"Softsign (x)", "96"},
           {"Tan (x)", "96"},
           {"HardSigmoid <alpha = 0.3> (x)", "96"},
           {"Shrink <lambd = 0.3, bias = 0.3> (x)", "96"},
           {"ThresholdedRelu <alpha = 6.3> (near)", "96"},
           {"Mean (x, near, x)", "96"},
           {"LpNormalization <axis = 0> (x)", "96"},
           {"Gemm <alpha = 0.3, beta = 0.7> (left, right, square)", "4, 4"},
           {"Gemm (left, right, square)", "4, 4"},
           {"ReduceLogSum <keepdims = 0, axes = [0]> (positive)", "24", 13},
           {"ReduceLogSumExp <keepdims = 0, axes = [0]> (left)", "24", 13},
           {"ReduceSumSquare <keepdims = 0, axes = [0]> (left)", "24", 13},
           {"ReduceL2 <keepdims = 0, axes = [0]> (left)", "24", 13},
           {"LRN <size = 3, alpha = 0.3> (image)", "1, 4, 4, 6"},
           {"LpPool <kernel_shape = [2, 2]> (image)", "1, 4, 3, 5"},
           {"GlobalLpPool <p = 3> (image)", "1, 4, 1, 1"},
           {"AveragePool <kernel_shape = [3, 3], dilations = [2, 2], pads = [2, 2, 2, 2]> (image)", "1, 4, 4, 6"}}) {
    for (const char* const type : {"float16", "bfloat16"})
      EXPECT_EQ(small_floats(call, type, false), small_floats(call, type, true)) << call.call << " of " << type;
  }
}

TEST(Functions, AreOneOperatorEach) {
  for (const auto& [op, opset] : std::vector<std::pair<std::string, int>>{{"Acos", 7},
                                                                          {"Asin", 7},
                                                                          {"Acosh", 9},
                                                                          {"Asinh", 9},
                                                                          {"Atanh", 9},
                                                                          {"Cosh", 9},
                                                                          {"Sinh", 9},
                                                                          {"Round", 11}}) {
    const ImportedGraph model("agraph (float[batch, 4] x) => (float[batch, 4] y) { y = " + op + " (x) }", opset);
    std::string name = op;
    name[0] = static_cast<char>(std::tolower(name[0]));
    EXPECT_THAT(model.ops(), ElementsAre(name));
    EXPECT_EQ(model.output(), "f32[batch,4] @0");
  }
}

TEST(Functions, RoundsAHalfToTheEvenNumber) {
  EXPECT_THAT(numbers_of("agraph () => (float[6] y) <float[6] x = {0.5, 1.5, 2.5, -0.5, -1.5, -2.6}>"
                         " { y = Round (x) }",
                         11),
              ElementsAre(0, 2, 2, 0, -2, -3));
}

TEST(Mod, HasTheSignOfTheDivisorOrOfTheDividend) {
  const std::string whole = "agraph () => (int32[4] y) <int32[4] a = {7, -7, 7, -7}, int32[4] b = {3, 3, -3, -3}> ";
  EXPECT_THAT(numbers_of(whole + "{ y = Mod (a, b) }", 13), ElementsAre(1, 2, -2, -1));
  EXPECT_THAT(numbers_of(whole + "{ y = Mod <fmod = 1> (a, b) }", 13), ElementsAre(1, -1, 1, -1));
  EXPECT_THAT(numbers_of("agraph () => (float[3] y) <float[3] a = {-4.5, 16777215, 5.25}, float[3] b = {2, 10, -2}>"
                         " { y = Mod <fmod = 1> (a, b) }",
                         13),
              ElementsAre(-0.5, 5, 1.25));
}

TEST(Bits, OfUnsignedNumbersStayUnsigned) {
  const auto shifted = [](const std::string& type, const std::string& direction, const std::string& numbers) {
    return numbers_of("agraph () => (" + type + "[2] y) <" + type + "[2] a = " + numbers + ", " + type +
                          "[2] b = {1, 7}> { y = BitShift <direction = \"" + direction + "\"> (a, b) }",
                      11);
  };
  EXPECT_THAT(shifted("uint8", "LEFT", "{200, 255}"), ElementsAre(144, 128));
  EXPECT_THAT(shifted("uint16", "LEFT", "{40000, 65535}"), ElementsAre(14464, 65408));
  EXPECT_THAT(shifted("uint16", "RIGHT", "{40000, 65535}"), ElementsAre(20000, 511));
  EXPECT_THAT(shifted("uint32", "RIGHT", "{4294967295, 4294967295}"), ElementsAre(2147483647, 33554431));
  EXPECT_THAT(shifted("uint64", "RIGHT", "{256, 256}"), ElementsAre(128, 2));
  EXPECT_THAT(numbers_of("agraph () => (uint16[2] y) <uint16[2] a = {1, 65535}> { y = BitwiseNot (a) }", 18),
              ElementsAre(65534, 0));
  EXPECT_THAT(
      numbers_of("agraph () => (int8[2] y) <int8[2] a = {12, -1}, int8[1] b = {10}> { y = BitwiseXor (a, b) }", 18),
      ElementsAre(6, -11));
  EXPECT_THAT(refusal("agraph (float[batch] x) => (float[batch] y) { y = BitwiseNot (x) }", 18),
              HasSubstr("bitwise_not: operand 0 is f32; it must be an integer type"));
}

TEST(Arithmetic, OfUnsignedNumbersWrapsAndKeepsTheirOrder) {
  const auto computed = [](const std::string& type, const std::string& result, const std::string& node) {
    return numbers_of("agraph () => (" + result + "[2] y) <" + type + "[2] a = {200, 7}, " + type +
                          "[2] b = {100, 9}> { y = " + node + " (a, b) }",
                      18);
  };
  for (const std::string type : {"uint8", "uint16", "uint32", "uint64"}) {
    EXPECT_THAT(computed(type, type, "Max"), ElementsAre(200, 9)) << type;
    EXPECT_THAT(computed(type, "bool", "Less"), ElementsAre(0, 1)) << type;
  }
  EXPECT_THAT(computed("uint16", "uint16", "Sub"), ElementsAre(100, 65534));
  EXPECT_THAT(computed("uint32", "uint32", "Div"), ElementsAre(2, 0));
  // -1 as u64 is the largest number.
  EXPECT_THAT(numbers_of("agraph () => (bool[1] y) <uint64[1] a = {0}, uint64[1] b = {5}>"
                         " { c = Sub (a, b)\n y = Greater (c, b) }",
                         18),
              ElementsAre(1));
}

struct Largest {
  std::string type, digits;
  double decoded;  ///< the support library reads u64 as i64
};

/// LibTorch computes none of these with unsigned integers of more than one byte.
TEST(Arithmetic, OfWideUnsignedNumbersIsExact) {
  for (const Largest& of : std::vector<Largest>{
           {"uint16", "65535", 65535}, {"uint32", "4294967295", 4294967295}, {"uint64", "18446744073709551615", -1}}) {
    SCOPED_TRACE(of.type);
    const std::string stored = " <" + of.type + "[2, 2] x = {" + of.digits + ", 1, 2, 3}, " + of.type +
                               "[2, 2] w = {1, 0, 1, 1}, bool[2, 2] c = {1, 0, 0, 1}, int64 one = {1},"
                               " int64[1] ones = {1}, int64[2, 2] at = {1, 0, 1, 0}, int64 two = {2}, " +
                               of.type + "[2] ends = {7, " + of.digits + "}> ";
    const auto computed = [&](const std::string& shape, const std::string& node) {
      return numbers_of("agraph () => (" + of.type + shape + " y)" + stored + "{ y = " + node + " }", 18);
    };
    EXPECT_THAT(computed("[2, 2]", "MatMul (x, w)"), ElementsAre(0, 1, 5, 3));
    EXPECT_THAT(computed("[2, 2]", "Gemm (x, w)"), ElementsAre(0, 1, 5, 3));
    EXPECT_THAT(computed("[2, 1]", "ReduceSum (x, ones)"), ElementsAre(0, 5));
    EXPECT_THAT(computed("[2, 2]", "CumSum (x, one)"), ElementsAre(of.decoded, 0, 2, 5));
    EXPECT_THAT(computed("[2, 2]", "Abs (x)"), ElementsAre(of.decoded, 1, 2, 3));
    EXPECT_THAT(computed("[2, 2]", "Where (c, x, w)"), ElementsAre(of.decoded, 0, 1, 3));
    EXPECT_THAT(computed("[2, 2]", "Trilu (x)"), ElementsAre(of.decoded, 1, 0, 3));
    EXPECT_THAT(computed("[2, 2]", "ScatterElements <axis = 1> (w, at, x)"), ElementsAre(1, of.decoded, 3, 2));
    EXPECT_THAT(computed("[2]", "Einsum <equation = \"ij,ij->i\"> (x, w)"), ElementsAre(of.decoded, 5));
    EXPECT_THAT(computed("[1, 2]", "OneHot (ones, two, ends)"), ElementsAre(7, of.decoded));
    if (of.type == "uint64") continue;
    EXPECT_THAT(computed("[2, 1]", "ReduceMax (x, ones)"), ElementsAre(of.decoded, 3));
    EXPECT_THAT(computed("[2, 2]", "Sign (x)"), ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(numbers_of("agraph () => (int64[2, 1] y)" + stored + "{ y = ArgMax <axis = 1> (x) }", 18),
                ElementsAre(0, 1));
  }
}

TEST(Arithmetic, RefusesTheOrderOfUnsignedNumbersOf64Bits) {
  for (const std::string node : {"y = ReduceMax (x)", "y = Sign (x)", "y = ArgMax (x)", "y, i = TopK (x, one)"}) {
    EXPECT_THAT(refusal("agraph (uint64[batch, 2] x) => (uint64[n] y) <int64[1] one = {1}> { " + node + " }", 18),
                HasSubstr(" of u64 is not supported"));
  }
}

TEST(Arithmetic, DividesUnsignedNumbersOf64Bits) {
  // The largest number, as -1 is; half of it; a divisor beyond what has a sign.
  const auto computed = [](const std::string& node) {
    return numbers_of(
        "agraph () => (uint64[5] y) <uint64[5] a = {7, 0, 10, 5, 0}, uint64[5] less = {0, 1, 0, 6, 6},"
        " uint64[5] b = {3, 10, 4, 1, 0}, uint64[5] under = {0, 0, 0, 2, 5}, uint64[1] ten = {10}> {"
        " c = Sub (a, less)\n d = Sub (b, under)\n q = " +
            node + " (c, d)\n y = Mod (q, ten) }",
        18);
  };
  // 7 / 3, (2^64 - 1) / 10, 10 / 4, (2^64 - 1) / (2^64 - 1), (2^64 - 6) / (2^64 - 5)
  EXPECT_THAT(computed("Div"), ElementsAre(2, 1, 2, 1, 0));
  EXPECT_THAT(computed("Mod"), ElementsAre(1, 5, 2, 0, 0));
}

TEST(Clip, KeepsUnsignedNumbersWithinTheirOrder) {
  for (const std::string type : {"uint16", "uint32", "uint64"}) {
    EXPECT_THAT(numbers_of("agraph () => (" + type + "[3] y) <" + type + "[3] x = {1, 100, 250}, " + type +
                               " low = {5}, " + type + " high = {200}> { y = Clip (x, low, high) }",
                           13),
                ElementsAre(5, 100, 200))
        << type;
  }
  // -1 as u64 is the largest number.
  EXPECT_THAT(numbers_of("agraph () => (uint64[2] y) <uint64[2] x = {0, 9}, uint64 one = {1}, uint64 high = {3}> {"
                         " z = Sub (x, one)\n y = Clip (z, , high) }",
                         14),
              ElementsAre(3, 3));
}

TEST(Clip, LetsTheUpperBoundWin) {
  const auto run = test::run_onnx(
      "agraph (float[batch] x, float low) => (float[batch] y) <float high = {1}> { y = Clip (x, low, high) }", 13,
      {{"x", {0, 1.5, 5}}, {"low", {2}}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  EXPECT_THAT(run->numbers[0], ElementsAre(1, 1, 1));
}

TEST(BitCast, NeedsAsManyBits) {
  EXPECT_THAT(numbers_of("agraph () => (int32[2] y) <float[2] x = {1, -2}> { y = BitCast <to = 6> (x) }", 26),
              ElementsAre(0x3f800000, -1073741824));
  EXPECT_THAT(refusal("agraph (float[batch] x) => (int64[batch] y) { y = BitCast <to = 7> (x) }", 26),
              HasSubstr("the bits of f32 are not as many as those of i64"));
}

TEST(Thresholds, AreThoseOfTheirDefinitions) {
  const std::string head = "agraph () => (float[5] y) <float[5] x = {-2, -0.25, 0, 0.5, 3}> ";
  EXPECT_THAT(numbers_of(head + "{ y = Shrink <lambd = 0.25, bias = 1.0> (x) }", 9), ElementsAre(-1, 0, 0, -0.5, 2));
  EXPECT_THAT(numbers_of(head + "{ y = ThresholdedRelu <alpha = 0.5> (x) }", 10), ElementsAre(0, 0, 0, 0, 3));
  const ImportedGraph samples("agraph (float[batch, 5] x) => (float[batch, 5] y) { y = Shrink (x) }", 9);
  EXPECT_EQ(samples.output(), "f32[batch,5] @0");
}

TEST(Thresholds, OfIntegersAreFractions) {
  const std::string node = "{ y = Shrink <lambd = 1.5, bias = 1.5> (x) }";
  EXPECT_THAT(numbers_of("agraph () => (int32[9] y) <int32[9] x = {-4, -3, -2, -1, 0, 1, 2, 3, 4}> " + node, 9),
              ElementsAre(-2, -1, 0, 0, 0, 0, 0, 1, 2));
  EXPECT_THAT(numbers_of("agraph () => (uint8[4] y) <uint8[4] x = {0, 1, 2, 4}> " + node, 9), ElementsAre(0, 0, 0, 2));
}

TEST(Celu, OfANegativeAlphaIsThatOfItsDefinition) {
  const auto run =
      numbers_of("agraph () => (float[4] y) <float[4] x = {-1, 0, 1, 0.3}> { y = Celu <alpha = -0.3> (x) }", 12);
  // -0.3 * (e^(1 / 0.3) - 1)
  EXPECT_THAT(run, Pointwise(DoubleNear(1e-4), {-8.10949, 0.0, 1.0, 0.3}));
}

TEST(Gemm, RefusesFractionsOfIntegers) {
  const std::string head =
      "agraph (int32[batch, 3] a) => (int32[batch, 2] y) <int32[3, 2] b = {1, 2, 3, 4, 5, 6}, int32[2] c = {1, 2}> ";
  EXPECT_THAT(refusal(head + "{ y = Gemm <alpha = 0.5> (a, b, c) }", 13),
              HasSubstr("Gemm: alpha 0.5 of i32 operands is not an integer"));
  EXPECT_THAT(refusal(head + "{ y = Gemm <beta = 1.5> (a, b, c) }", 13),
              HasSubstr("Gemm: beta 1.5 of i32 operands is not an integer"));
  const auto run = test::run_onnx(head + "{ y = Gemm <alpha = 2.0, beta = 3.0> (a, b, c) }", 13, {{"a", {1, 0, 0}}});
  ASSERT_TRUE(run.ok()) << run.diagnostic().str();
  EXPECT_THAT(run->numbers[0], ElementsAre(5, 10));
}

TEST(Det, IsOfTheLastTwoAxes) {
  EXPECT_EQ(ImportedGraph("agraph (float[batch, 3, 3] x) => (float[batch] y) { y = Det (x) }", 11).output(),
            "f32[batch] @0");
  EXPECT_THAT(numbers_of("agraph () => (float y) <float[2, 2] x = {3, 2, 1, 4}> { y = Det (x) }", 22),
              Pointwise(DoubleNear(1e-5), {10.0}));
  EXPECT_THAT(refusal("agraph (float[batch, batch] x) => (float y) { y = Det (x) }", 11), HasSubstr("batch"));
}

}  // namespace
}  // namespace rannc::frontend
