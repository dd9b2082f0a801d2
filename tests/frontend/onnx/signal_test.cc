// Fourier transforms as products with matrices: numbers of the definition, forms, samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/frontend/support/imported_graph.h"
#include "tests/frontend/support/numbers_of.h"

namespace rannc::frontend {
namespace {

using test::ImportedGraph;
using test::numbers_of;
using test::refusal;
using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

auto near(std::vector<double> expected) { return Pointwise(DoubleNear(1e-5), std::move(expected)); }

const std::string kSignal =
    "agraph () => (float[n] y) <float[1, 4, 1] x = {1, 2, 3, 5}, int64 six = {6}, int64 three ="
    " {3}, int64 five = {5}, int64[1] f = {-1}> ";

TEST(Dft, IsThatOfItsDefinition) {
  EXPECT_THAT(numbers_of(kSignal + "{ z = DFT <axis = 1> (x)\n y = Reshape (z, f) }", 17),
              near({11, 0, -2, 3, -3, 0, -2, -3}));
  EXPECT_THAT(numbers_of(kSignal + "{ z = DFT <onesided = 1> (x)\n y = Reshape (z, f) }", 20),
              near({11, 0, -2, 3, -3, 0}));
  EXPECT_THAT(numbers_of(kSignal + "{ z = DFT <onesided = 1> (x, three)\n y = Reshape (z, f) }", 20),
              near({6, 0, -1.5, 0.8660254}));
}

TEST(Dft, ComesBack) {
  for (const std::string length : {"", "six", "five"}) {
    const std::string more = length.empty() ? "" : ", " + length;
    std::vector<double> filled = {1, 2, 3, 5};
    if (!length.empty()) filled.resize(length == "six" ? 6 : 5);
    EXPECT_THAT(numbers_of(kSignal + "{ z = DFT <onesided = 1> (x" + more +
                               ")\n w = DFT <onesided = 1, inverse = 1> (z" + more + ")\n y = Reshape (w, f) }",
                           20),
                near(filled));
  }
  EXPECT_THAT(numbers_of(kSignal + "{ z = DFT (x)\n w = DFT <inverse = 1> (z)\n y = Reshape (w, f) }", 20),
              near({1, 0, 2, 0, 3, 0, 5, 0}));
}

TEST(Dft, KeepsSamplesAndNeedsALength) {
  EXPECT_EQ(ImportedGraph("agraph (float[batch, 8, 1] x) => (float[batch, 5, 2] y) { y = DFT <onesided = 1> (x) }", 20)
                .output(),
            "f32[batch,5,2] @0");
  EXPECT_THAT(refusal("agraph (float[batch, n, 1] x) => (float[batch, n, 2] y) { y = DFT (x) }", 20),
              HasSubstr("needs a known length"));
  EXPECT_THAT(refusal("agraph (float[batch, 8, 1] x, int64 d) => (float[batch, n, 2] y) { y = DFT (x, d) }", 20),
              HasSubstr("DFT: the length 'd' must be known before the model runs"));
}

TEST(Stft, TransformsFramesTimesTheWindow) {
  const std::string head =
      "agraph () => (float[n] y) <float[1, 6, 1] x = {1, 2, 3, 5, 0, 1}, int64 step = {2}, float[4]"
      " w = {0.5, 1, 1, 0.5}, int64 four = {4}, int64[1] f = {-1}> ";
  EXPECT_THAT(numbers_of(head + "{ z = STFT (x, step, w)\n y = Reshape (z, f) }", 17),
              near({8, 0, -2.5, 0.5, -1, 0, 7, 0, 1.5, -4.5, -4, 0}));
  EXPECT_EQ(ImportedGraph("agraph (float[batch, 16] x) => (float[batch, 5, 5, 2] y) <int64 s = {2}, int64 n = {8}>"
                          " { y = STFT (x, s, , n) }",
                          17)
                .output(),
            "f32[batch,5,5,2] @0");
  EXPECT_EQ(ImportedGraph("agraph (float[batch, 16, 1] x) => (float[batch, 5, 5, 2] y) <int64 s = {2}, int64 n = {8}>"
                          " { y = STFT (x, s, , n) }",
                          17)
                .output(),
            "f32[batch,5,5,2] @0");
}

TEST(MelWeightMatrix, IsAConstant) {
  EXPECT_THAT(numbers_of("agraph () => (float[5, 2] y) <int64 b = {2}, int64 d = {8}, int64 r = {8192}, float l = {0},"
                         " float h = {4096}> { y = MelWeightMatrix (b, d, r, l, h) }",
                         17),
              near({1, 0, 0, 1, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace rannc::frontend
