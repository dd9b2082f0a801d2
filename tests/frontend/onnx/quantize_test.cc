// Quantised models: what the pair of QuantizeLinear and DequantizeLinear becomes, granularities, products of integers.
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
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kScales =
    " <float s = {0.5}, float[1] s1 = {0.5}, float t = {0.25}, int8 z = {3}, int8[1] z1 = {3}, float[3] c = {0.5, 1, "
    "2},"
    " int8[3] zc = {0, 1, -1}, int8[3] zd = {0, 1, 2}> ";

ImportedGraph pair(const std::string& quantize, const std::string& dequantize, int opset = 13) {
  return ImportedGraph("agraph (float[batch, 3, 4] x) => (float[batch, 3, 4] y)" + kScales + "{ q = QuantizeLinear " +
                           quantize + "\n y = DequantizeLinear " + dequantize + " }",
                       opset);
}

TEST(Quantize, PairsBecomeOneOperatorThatIsTrainedThrough) {
  const ImportedGraph whole = pair("(x, s, z)", "(q, s, z)");
  EXPECT_THAT(whole.ops(), Contains("fake_quantize"));
  EXPECT_THAT(whole.ops(), Not(Contains("dequantize")));
  EXPECT_EQ(whole.output(), "f32[batch,3,4] @0");
  EXPECT_EQ(whole.last().integer("low", 0), -128);
  EXPECT_EQ(whole.last().integer("high", 0), 127);
  EXPECT_THAT(pair("(x, s)", "(q, s)").ops(), Contains("fake_quantize"));
  EXPECT_THAT(pair("(x, s1, z1)", "(q, s, z)").ops(), Contains("fake_quantize"));
  const ImportedGraph channels = pair("<axis = 1> (x, c, zc)", "<axis = 1> (q, c, zc)");
  EXPECT_THAT(channels.ops(), Contains("fake_quantize"));
  EXPECT_EQ(channels.last().integer("axis", -1), 1);
}

/// Rows of blocks, the last of each of which is short.
const std::string kBlocks =
    " <float[2, 2] s = {0.5, 1, 2, 0.25}, int8[2, 2] z = {0, 1, -1, 2}, float[2, 2] t = {0.5, 1, 2, 0.5}> ";

std::string blocks(const std::string& head, const std::string& scale, const std::string& size = "2") {
  return head + kBlocks +
         "{ q = QuantizeLinear <axis = 1, block_size = 2> (x, s, z)\n y = DequantizeLinear <axis = 1, " +
         "block_size = " + size + "> (q, " + scale + ", z) }";
}

TEST(Quantize, PairsOfBlocksAreTrainedThrough) {
  const std::string fixed = "agraph (float[2, 3] x) => (float[2, 3] y)";
  const ImportedGraph model(blocks(fixed, "s"), 21);
  EXPECT_THAT(model.ops(), Contains("fake_quantize"));
  EXPECT_THAT(model.ops(), Not(Contains("dequantize")));
  EXPECT_EQ(model.output(), "f32[2,3]");
  EXPECT_THAT(ImportedGraph(blocks(fixed, "t"), 21).ops(), Not(Contains("fake_quantize")));
  const ImportedGraph samples(
      "agraph (float[batch, 4] x, float[batch, 2] s) => (float[batch, 4] y) {"
      " q = QuantizeLinear <axis = 1, block_size = 2> (x, s)\n"
      " y = DequantizeLinear <axis = 1, block_size = 2> (q, s) }",
      21);
  EXPECT_THAT(samples.ops(), Not(Contains("fake_quantize"))) << "rows of samples are no channels";
  EXPECT_EQ(samples.output(), "f32[batch,4] @0");
}

TEST(Quantize, BlocksHaveNumbersAndGradientsOfTheirOwn) {
  const test::Numbers inputs = {{"x", {0.7, 200, -0.6, 9, -400, 0.3}}};
  const auto pair = test::run_onnx(blocks("agraph (float[2, 3] x) => (float[2, 3] y)", "s"), 21, inputs);
  ASSERT_TRUE(pair.ok()) << pair.diagnostic().str();
  EXPECT_THAT(pair->numbers[0], ElementsAre(0.5, 63.5, -1, 8, -254, 0.25));
  const auto check = test::check_gradients(pair->graph, pair->inputs);
  ASSERT_TRUE(check.ok()) << check.diagnostic().str();
  EXPECT_EQ(check->fault, "");
  EXPECT_EQ(check->differentiable, 1U);
}

TEST(Quantize, OthersStayApart) {
  for (const ImportedGraph& model :
       {pair("(x, s, z)", "(q, t, z)"), pair("<axis = 1> (x, c, zc)", "<axis = 1> (q, c, zd)"),
        pair("(x, s, z)", "(q, s)")}) {
    EXPECT_THAT(model.ops(), Contains("dequantize"));
    EXPECT_THAT(model.ops(), Not(Contains("fake_quantize")));
    EXPECT_EQ(model.output(), "f32[batch,3,4] @0");
  }
}

TEST(Quantize, PairsAreSaid) {
  const auto read = test::read_graph(
      "agraph (float[batch, 4] x) => (float[batch, 4] y) <float s = {0.5}>"
      " { q = QuantizeLinear (x, s)\n a = DequantizeLinear (q, s)\n"
      "   r = QuantizeLinear (a, s)\n y = DequantizeLinear (r, s) }",
      13);
  ASSERT_TRUE(read.ok()) << read.diagnostic().str();
  ASSERT_EQ(read->notes.counted_remarks.size(), 1u);
  EXPECT_THAT(read->notes.counted_remarks.begin()->first, HasSubstr("pass gradients"));
  EXPECT_EQ(read->notes.counted_remarks.begin()->second, 2u);
}

TEST(Quantize, RoundsToEvenAndSaturates) {
  const std::string head =
      "agraph () => (uint8[5] y) <float[5] x = {0.5, 1.5, -9, 999, 3}, float s = {1},"
      " uint8 z = {10}> ";
  EXPECT_THAT(numbers_of(head + "{ y = QuantizeLinear (x, s, z) }", 10), ElementsAre(10, 12, 1, 255, 13));
  EXPECT_THAT(numbers_of("agraph () => (int16[2] y) <float[2] x = {-99999, 3}, float s = {1}>"
                         " { y = QuantizeLinear <output_dtype = 5> (x, s) }",
                         21),
              ElementsAre(-32768, 3));
}

/// Also quotients that integers of 64 bits do not hold.
TEST(Quantize, SaturatesAtInfinity) {
  const double infinity = HUGE_VAL;
  for (const std::string attributes : {"", "<axis = 1>", "<axis = 1, block_size = 2>"}) {
    const bool blocks = attributes.size() > 12, axis = !attributes.empty();
    const std::string sizes = blocks ? "[1, 2]" : axis ? "[4]" : "";
    const std::string scale = blocks ? "{0.5, 0.5}" : axis ? "{0.5, 0.5, 0.5, 0.5}" : "{0.5}";
    const std::string zero = blocks ? "{1, 1}" : axis ? "{1, 1, 1, 1}" : "{1}";
    const auto ran = test::run_onnx("agraph (float[1, 4] x) => (float[1, 4] y) <float" + sizes + " s = " + scale +
                                        ", int8" + sizes + " z = " + zero + "> { q = QuantizeLinear " + attributes +
                                        " (x, s, z)\n y = DequantizeLinear " + attributes + " (q, s, z) }",
                                    21, {{"x", {infinity, -infinity, 1e30, 2}}});
    ASSERT_TRUE(ran.ok()) << ran.diagnostic().str();
    EXPECT_THAT(ran->numbers[0], ElementsAre(63, -64.5, 63, 2)) << attributes;
  }
}

TEST(Quantize, HasScalesByAxisAndByBlock) {
  EXPECT_THAT(numbers_of("agraph () => (float[2, 3] y) <uint8[2, 3] x = {1, 2, 3, 4, 5, 6}, float[3] s = {1, 2, 3},"
                         " uint8[3] z = {1, 0, 4}> { y = DequantizeLinear <axis = -1> (x, s, z) }",
                         13),
              ElementsAre(0, 4, -3, 3, 10, 6));
  EXPECT_THAT(numbers_of("agraph () => (float[2, 3] y) <int8[2, 3] x = {1, 2, 3, 4, 5, 6}, float[2, 2] s ="
                         " {1, 10, 100, 1000}> { y = DequantizeLinear <axis = 1, block_size = 2> (x, s) }",
                         21),
              ElementsAre(1, 2, 30, 400, 500, 6000));
  EXPECT_THAT(refusal("agraph (uint8[batch, 4] x) => (float[batch, 4] y) <float[3] s = {1, 2, 3}>"
                      " { y = DequantizeLinear (x, s) }",
                      13),
              HasSubstr("scale [3] is not one number for each of axis 1 of [batch,4]"));
  EXPECT_THAT(refusal("agraph (uint8[batch, 4] x) => (float[batch, 4] y) <float[1, 3] s = {1, 2, 3}>"
                      " { y = DequantizeLinear (x, s) }",
                      13),
              HasSubstr("scale has shape [1,3] for [batch,4]; expected one number"));
}

TEST(Quantize, OfAWeightIsNothingThatIsTrained) {
  const ImportedGraph model(
      "agraph (float[batch, 3] x) => (float[batch, 2] y) <int8[3, 2] w = {1, 2, 3, 4, 5, 6},"
      " float s = {0.5}> { d = DequantizeLinear (w, s)\n y = MatMul (x, d) }",
      13);
  EXPECT_THAT(model.ops(), Contains("dequantize"));
  EXPECT_EQ(model.output(), "f32[batch,2] @0");
}

TEST(IntegerProducts, AreExact) {
  EXPECT_THAT(numbers_of("agraph () => (int32[2, 1] y) <uint8[2, 2] a = {255, 255, 7, 0}, int8[2, 1] b = {-128, 127},"
                         " uint8 za = {1}, int8 zb = {-1}> { y = MatMulInteger (a, b, za, zb) }",
                         10),
              ElementsAre(254, -890));
  EXPECT_EQ(ImportedGraph("agraph (uint8[batch, 400] a, int8[400, 2] b) => (int32[batch, 2] y)"
                          " { y = MatMulInteger (a, b) }",
                          10)
                .output(),
            "i32[batch,2] @0");
  EXPECT_THAT(numbers_of("agraph () => (int32[1, 1, 1, 2] y) <uint8[1, 1, 1, 3] x = {1, 2, 3}, uint8[1, 1, 1, 2] w ="
                         " {5, 7}, uint8 zx = {1}> { y = ConvInteger (x, w, zx) }",
                         10),
              ElementsAre(7, 19));
  EXPECT_THAT(numbers_of("agraph () => (uint8[1, 2] y) <uint8[1, 2] a = {4, 6}, float sa = {0.5}, uint8 za = {2},"
                         " uint8[2, 2] b = {1, 2, 3, 4}, float[2] sb = {1, 2}, uint8[2] zb = {0, 1}, float sy = {0.5},"
                         " uint8 zy = {9}> { y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy) }",
                         10),
              ElementsAre(23, 37));
}

}  // namespace
}  // namespace rannc::frontend
