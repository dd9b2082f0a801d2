// Programs of one operator where a shorter formula, or one without all of the operator's arguments, has other numbers
// or other gradients than LibTorch's.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/frontend/torchscript/program.h"

namespace rannc::test {
namespace {

constexpr double kNan = NAN, kInfinity = INFINITY;

at::Tensor numbers(std::initializer_list<double> values) { return at::tensor(values, at::kDouble); }

std::string source(const std::string& body) { return "def forward(self, x):\n  " + body + "\n"; }

/// What differs from LibTorch's numbers, or else from its gradients.
std::string difference_of(const std::string& body, const at::Tensor& x) {
  SavedModule module(source(body));
  const std::string apart = difference(module, {x}, false);
  return apart.empty() ? gradient_difference(module, {x}) : apart;
}

TEST(Copies, AreNoAliases) {
  const at::Tensor x = numbers({1, 2, 3});
  EXPECT_EQ(difference_of("k = x * 2\n  m = k.to(7, copy=True)\n  m[0] = 0.\n  return k + m", x), "");
  EXPECT_EQ(difference_of("k = x * 2\n  m = k.to(7)\n  m[0] = 0.\n  return k + m", x), "");
}

TEST(Copies, OfAnotherMemoryFormatAreNotWritten) {
  constexpr char kWrites[] = "k = x * 2\n  m = k.to(7, memory_format=2)\n  m.mul_(0)\n  return k + m";
  EXPECT_THAT(difference_of(kWrites, at::ones({2, 3, 2, 2}, at::kDouble)), testing::HasSubstr("may share memory"));
  constexpr char kReads[] = "return x.to(7, memory_format=2) * 2";
  EXPECT_EQ(difference_of(kReads, at::ones({2, 3, 2, 2}, at::kDouble)), "");
}

/// ATen computes with all digits of a number or of a tensor of rank 0, and rounds the result.
TEST(SixteenBits, AreScaledByNumbersOfAllDigits) {
  const at::Tensor x = at::randn({200}, at::kDouble);
  for (const char* const type : {"15", "5"}) {
    for (const char* const body :
         {"return (h * 0.3).to(7)", "return (0.3 * h).to(7)", "return (h / 0.9).to(7)", "return (h * 257).to(7)",
          "return (h * 0.5).to(7)", "return (h * self.scale).to(7)", "return (0.3 / h).to(7)",
          "return (h * float('inf')).to(7)", "return (h * len([x, x, x])).to(7)"}) {
      SavedModule module(source(std::string("h = x.to(") + type + ") * 1\n  " + body),
                         [](torch::jit::Module& m) { m.register_buffer("scale", at::full({}, 0.3, at::kFloat)); });
      EXPECT_EQ(difference(module, {x}, false), "") << type << ": " << body;
    }
  }
}

TEST(FloorDivision, FollowsTheRemainder) {
  const at::Tensor x = numbers({1, -1, 0.3, -0.3, 0, -0.0, 7, kInfinity, -kInfinity, kNan});
  for (const char* const divisor : {"0.1", "-0.1", "0.7", "2.0", "0.0", "-0.0", "float('inf')"}) {
    EXPECT_EQ(difference_of(std::string("return torch.div(x, ") + divisor + ", rounding_mode='floor')", x), "")
        << divisor;
    SavedModule operation(source(std::string("return x // ") + divisor));
    EXPECT_EQ(difference(operation, {x}, false), "") << divisor;  // PyTorch has no gradient of it
  }
  EXPECT_EQ(difference_of("return 1 / torch.div(x, 100.0, rounding_mode='floor')", numbers({0, -0.0, 1})), "");
  SavedModule half(source("return torch.div(x.half(), torch.full_like(x, 0.1).half(), rounding_mode='floor')"));
  EXPECT_EQ(difference(half, {x}, false), "");
}

TEST(Deviations, OfEqualNumbersHaveNoGradient) {
  const at::Tensor x = at::tensor({1., 1., 1., 1., 2., 4.}, at::kDouble).view({2, 3});
  EXPECT_EQ(difference_of("return x.std(1) + x.sum(1)", x), "");
  EXPECT_EQ(difference_of("return torch.std_mean(x, 1)", x), "");
}

TEST(Variances, MayHaveAnyCorrection) {
  const at::Tensor x = at::arange(12, at::kDouble).square().view({3, 4});
  for (const char* const correction : {"0", "1", "2", "0.5", "1.25", "-0.5"}) {
    EXPECT_EQ(difference_of(std::string("return torch.var(x, [1], correction=") + correction + ")", x), "")
        << correction;
  }
}

TEST(Variances, HaveNoNegativeDivisor) {
  SavedModule module(source("return torch.var(x, [1], correction=5), torch.std(x, [1], correction=4.5)"));
  EXPECT_EQ(difference(module, {at::arange(12, at::kDouble).view({3, 4})}, false), "");
}

TEST(Places, OfExtremes) {
  const at::Tensor x = at::tensor({5., 0., 3., 0., 9., -128., 7., -128., 5., 5., 5., 9.}, at::kDouble).view({3, 4});
  for (const char* const type : {"0", "1", "3", "4", "6"}) {
    const std::string of = std::string("(x.to(") + type + ") if " + type + " != 0 else x.abs().to(0))";
    SavedModule module(source("return torch.argmin(" + of + ", 1), torch.argmax(" + of + ", 1)"));
    EXPECT_EQ(difference(module, {x}, false), "") << type;
  }
}

TEST(Extremes, AreTheFirstOfEqualOnes) {
  const at::Tensor x = at::arange(51, at::kDouble).square().remainder(5).view({3, 17});
  EXPECT_EQ(difference_of("return torch.max(x, 1)", x), "");
  EXPECT_EQ(difference_of("return torch.min(x, 1, True)", x), "");
  EXPECT_EQ(difference_of("return torch.min(x, 0)", x), "");
}

TEST(Extremes, AreNaNWhereThereIsOne) {
  const at::Tensor x = at::tensor({1., kNan, 0., kNan, kInfinity, -kInfinity}, at::kDouble).view({2, 3});
  for (const char* const call : {"torch.max(x, 1)", "torch.min(x, 1)", "torch.threshold(x, 0.5, -5)"}) {
    SavedModule module(source(std::string("return ") + call));
    EXPECT_EQ(difference(module, {x}, false), "") << call;
  }
}

TEST(SmallNumbers, KeepTheirDigits) {
  const at::Tensor x = numbers({1e-10, -1e-10, 1e-300, 0.5, -0.5, 3, 5, 26});
  for (const char* const call : {"torch.log1p(x.abs() * 1e-3) * 1e13", "torch.expm1(x * 1e-3)",
                                 "torch.expm1(-x) * 1e10", "torch.log(torch.erfc(x))", "torch.erfc(x * 5) * 1e30"})
    EXPECT_EQ(difference_of(std::string("return ") + call, x), "") << call;
}

TEST(PowersAndLogarithms, OfWholeNumbersAreExact) {
  const at::Tensor x = at::arange(1, 40, at::kDouble);
  for (const char* const call :
       {"torch.floor(torch.log2(torch.exp2(x)))", "torch.floor(torch.exp2(x))",
        "torch.floor(torch.log10(torch.pow(10.0, x)))", "torch.log2(x) + torch.log10(x)", "torch.exp2(x * 0.1)"})
    EXPECT_EQ(difference_of(std::string("return ") + call, x), "") << call;
}

TEST(Remainders, OfPythonsNumbers) {
  SavedModule module(
      "def remainder(self, a: float, b: float):\n  return a % b\ndef forward(self, x):\n"
      "  return x * self.remainder(1.0, 0.1), x * self.remainder(-1.0, 0.3), x * self.remainder(1.0, -0.3)\n");
  EXPECT_EQ(difference(module, {numbers({1, 2})}, false), "");
}

TEST(LogSumExp, OfInfinity) {
  SavedModule module(source("return torch.logsumexp(x, 1), torch.logsumexp(x, 1, True)"));
  const at::Tensor x =
      at::tensor({-kInfinity, -kInfinity, kInfinity, 1., -kInfinity, 2., kNan, 1., 1e4, 1e4}, at::kDouble);
  EXPECT_EQ(difference(module, {x.view({5, 2})}, false), "");
  EXPECT_EQ(difference_of("return torch.logsumexp(x, 0)", numbers({-kInfinity, 1, 2, 800})), "");
}

TEST(Softplus, IsLinearAboveItsThreshold) {
  const at::Tensor x = numbers({-50, -1, 0, 0.5, 1, 1.5, 3, 19, 20, 21, 25, 39, 41, 800});
  for (const char* const arguments : {"", ", 1, 1", ", 2, 3", ", 0.5, 100", ", 3, 20", ", 1, -1"})
    EXPECT_EQ(difference_of(std::string("return torch.softplus(x") + arguments + ")", x), "") << arguments;
}

TEST(Clamps, ByTensorsPassTheGradientAtABound) {
  const at::Tensor x = numbers({-2, -1, 0, 1, 2});
  constexpr char kBounds[] = "low, high = torch.full_like(x, -1), torch.ones_like(x)\n  return ";
  for (const char* const call : {"torch.clamp(x, low, high)", "torch.clamp(x, min=low)", "torch.clamp(x, max=high)",
                                 "torch.clamp(high, min=x)", "torch.clamp(low, max=x)", "torch.clamp(x, high, low)"}) {
    EXPECT_EQ(difference_of(std::string(kBounds) + call, x), "") << call;
    SavedModule module(source(std::string(kBounds) + call));
    EXPECT_EQ(difference(module, {numbers({kNan, 0, kNan})}, false), "") << call;
  }
}

TEST(Clamps, ByTensorsHaveThePromotedType) {
  const at::Tensor x = numbers({-2, -1, 0, 1, 2});
  for (const char* const call : {"torch.clamp(x.long(), min=torch.full([], 1.5))", "torch.clamp(x.float(), min=x)",
                                 "torch.clamp(x.long(), max=x.int())"}) {
    SavedModule module(source(std::string("return ") + call));
    EXPECT_EQ(difference(module, {x}, false), "") << call;
  }
}

TEST(Detached, NumbersPassNoZeros) {
  const at::Tensor x = numbers({0, 1, 4});  // the root has an infinite slope at 0
  EXPECT_EQ(difference_of("return torch.sqrt(x).detach() + x", x), "");
  EXPECT_EQ(difference_of("return x * torch.sqrt(x).detach() + torch.log(x + 1)", x), "");
}

TEST(Scatter, MayReduce) {
  const at::Tensor x = at::arange(12, at::kDouble).view({3, 4});
  for (const char* const source : {"x, reduce='add'", "x * 2, reduce='multiply'", "2.0, reduce='add'"}) {
    SavedModule module(std::string("def forward(self, x):\n  return x.scatter(1, x.long() % 3, ") + source + ")\n");
    EXPECT_EQ(difference(module, {x}, false), "") << source;
  }
}

TEST(RandomNumbers, HaveTheirType) {
  SavedModule module(source("return torch.rand_like(x, dtype=6) * 0, torch.randn_like(x.long(), dtype=7) * 0"));
  EXPECT_EQ(difference(module, {numbers({1, 2})}, false), "");
}

TEST(RandomNumbers, OfAShareAreZerosAndOnes) {
  SavedModule module(
      source("return x * x.new_empty([x.size(0), 1]).bernoulli_(1.0), torch.bernoulli(torch.zeros_like(x)), "
             "torch.bernoulli(x, 1.0), torch.zeros_like(x).bernoulli_(torch.ones_like(x))"));
  EXPECT_EQ(difference(module, {numbers({1, 2, 3, 4}).view({2, 2})}, false), "");
}

TEST(Losses, HaveTheFloatsOfATen) {
  const at::Tensor x = numbers({0, 1e-14, 0.5, 1});
  EXPECT_EQ(difference_of("return torch.binary_cross_entropy(x, torch.full_like(x, 0.3), None, 0)", x), "");
  const at::Tensor rows = numbers({0, 0, 0, 1, 2, 3}).view({2, 3});
  EXPECT_EQ(difference_of("return torch.cosine_embedding_loss(x, x * 2 + 1, torch.ones([2]), 0.1, 0)", rows), "");
}

TEST(ForeignCalls, MayHaveATypeWhenThePrecisionIsSet) {
  EXPECT_EQ(difference_of("return torch.cumprod(x, 0, dtype=7)", numbers({1, 2, 3})), "");
}

TEST(Rounding, KeepsIntegers) {
  SavedModule module(
      source("k = x.long()\n  return torch.floor(k), torch.ceil(k), torch.round(k), torch.round(x), torch.round(x, "
             "decimals=1)"));
  EXPECT_EQ(difference(module, {numbers({16777217, -0.5, 2.25})}, false), "");
}

TEST(SumsOfSquares, OfSmallFloatsAreWide) {
  const at::Tensor x = (at::arange(400, at::kDouble) * 0.37).sin().view({4, 100}) + 1;
  for (const char* const call : {"torch.var(h, 1)", "torch.std(h, 1)", "torch.var_mean(h, 1)", "torch.norm(h, 2, [1])",
                                 "torch.norm(h, 3, [1])"}) {
    SavedModule module(source(std::string("h = x.to(15)\n  return ") + call));
    EXPECT_EQ(difference(module, {x}, false), "") << call;
  }
}

// LibTorch computes each of these calls in single precision, and rounds the result alone. Its kernels for processors
// also round alpha and the last elements of a tensor, those for GPUs do not.
TEST(SmallFloats, AreRoundedOnce) {
  const at::Tensor x = ((at::arange(576, at::kDouble) * 0.37).sin() * 3).view({6, 96});
  for (const char* const call : {"torch.add(h, k, alpha=0.3125)",
                                 "torch.sub(h, k, alpha=0.3125)",
                                 "torch.rsub(h, k, alpha=0.3125)",
                                 "torch.addcmul(h, k, h, value=0.3)",
                                 "torch.addcmul(h, k, h)",
                                 "torch.addcdiv(h, h, k, value=0.3)",
                                 "torch.lerp(h, k, 0.3)",
                                 "torch.lerp(h, k, torch.sigmoid(h))",
                                 "torch.selu(h)",
                                 "torch.celu(h, 0.7)",
                                 "torch.softplus(h, 0.3)",
                                 "torch.mish(h)",
                                 "torch.glu(h, 1)",
                                 "torch.mul(h, 0.3)",
                                 "torch.div(h, 0.3)",
                                 "h * ((h > -4).sum() + 1)",
                                 "h / ((h > 0).sum() + 257)",
                                 "h * 257",
                                 "h.add_(k, alpha=0.3125)",
                                 "h.addcmul_(k, h, value=0.3)"}) {
    for (const char* const type : {"15", "5"}) {
      SavedModule module(
          source(std::string("h = x.to(") + type + ")\n  k = (x + 0.25).to(" + type + ")\n  return " + call));
      EXPECT_EQ(difference(module, {x}, false), "") << call << " of type " << type;
    }
  }
}

/// Whether LibTorch's kernels for processors round the product too depends on the processor and on the layout of the
/// operands. Those for GPUs do not.
TEST(SmallFloats, SumsWithProductsAreRoundedOnce) {
  const at::Tensor x = ((at::arange(576, at::kDouble) * 0.37).sin() * 3).view({6, 96});
  for (const char* const call :
       {"torch.addmm(c[0], a[0], b[0], beta=0.3, alpha=0.7)", "torch.addmm(c[0], a[0], b[0])",
        "torch.addmm(c[0, 0], a[0], b[0], beta=0.3)", "torch.addmv(c[0, 0], a[0], b[0, :, 0])",
        "torch.addmv(c[0, 0], a[0], b[0, :, 0], beta=0.3, alpha=0.7)", "torch.baddbmm(c, a, b, beta=0.3, alpha=0.7)",
        "torch.baddbmm(c, a, b)", "torch.baddbmm(c, a, b, beta=0, alpha=0.7)"}) {
    for (const std::string type : {"15", "5"}) {
      const std::string head =
          "h = x.to(" + type + ")\n  a, b, c = h.view(6, 8, 12), h.view(6, 12, 8), h[:, :64].reshape(6, 8, 8)\n  ";
      SavedModule narrow(source(head + "return " + call));
      SavedModule wide(
          source(head + "a, b, c = a.float(), b.float(), c.float()\n  return (" + call + ").to(" + type + ")"));
      narrow.module() = wide.module();
      EXPECT_EQ(difference(narrow, {x}, false), "") << call << " of type " << type;
    }
  }
}

/// The squares of these numbers are no finite doubles, or 0.
TEST(ComplexNumbers, MayBeLargeOrSmall) {
  const at::Tensor x = numbers({1e200, 1e-200, -1e160, 3, -3e-170});
  constexpr char kHead[] = "z, w, f = torch.complex(x, x * 0.5), torch.complex(x * 2, -x), x.detach()\n  return ";
  for (const char* const call :
       {"z.abs() / x", "torch.angle(z)", "torch.view_as_real(z / w)",
        "torch.view_as_real(torch.reciprocal(z)) * x.unsqueeze(1)", "torch.view_as_real(1.5 / z) * x.unsqueeze(1)"}) {
    SavedModule module(source(std::string(kHead) + call));
    EXPECT_EQ(difference(module, {x}, false), "") << call;
  }
  for (const char* const call : {"z.abs()", "torch.view_as_real(z / w.detach()) * f.unsqueeze(1)",
                                 "torch.view_as_real(z.detach() / w) * f.unsqueeze(1)",
                                 "torch.view_as_real(torch.reciprocal(z * (1 / f))) * f.unsqueeze(1)"}) {
    SavedModule module(source(std::string(kHead) + call));
    EXPECT_EQ(gradient_difference(module, {x}), "") << call;
  }
}

TEST(ComplexNumbers, OfInfinityAndZero) {
  const at::Tensor x = numbers({kInfinity, -kInfinity, 0, -0.0, kNan, 1});
  SavedModule module(source("return torch.complex(x, torch.ones_like(x)).abs(), torch.complex(x, x * 2).abs()"));
  EXPECT_EQ(difference(module, {x}, false), "");
  EXPECT_EQ(difference_of("return torch.complex(x, x * 2).abs()", numbers({0, -0.0, 1})), "");
}

TEST(Polar, HasTheGradientOfLibTorchWhereSizesAreNotPositive) {
  EXPECT_EQ(difference_of("z = torch.view_as_real(torch.polar(x, x + 0.7))\n  return z[:, 0] * 3 + z[:, 1] * 5",
                          numbers({2, 0, -0.0, -2})),
            "");
}

/// What is to be computed from 9223372036854775807 and 1, and how it is refused.
TEST(Integers, BeyondSixtyFourBitsAreRefused) {
  for (const char* const result : {"a + b", "0 - a - b - b", "a * (b + b)", "-(0 - a - b)", "(0 - a - b) // (0 - b)",
                                   "int(1.0e30 * b)", "int(float('inf') * b)"}) {
    SavedModule module(std::string("def f(self, a: int, b: int):\n  return ") + result +
                       "\ndef forward(self, x):\n  return x * self.f(9223372036854775807, 1)\n");
    EXPECT_THAT(difference(module, {numbers({1, 2})}, false), testing::HasSubstr("64 bits")) << result;
  }
}

TEST(Integers, OfSixtyFourBitsAreExact) {
  for (const char* const result :
       {"a - b + b", "0 - a - b", "a // b", "(0 - a) * b", "-(0 - a)", "int(2.0 ** 62) + b", "int(-(2.0 ** 63))"}) {
    SavedModule module(std::string("def f(self, a: int, b: int):\n  return ") + result +
                       "\ndef forward(self, x):\n  return x.long() * self.f(9223372036854775807, 1)\n");
    EXPECT_EQ(difference(module, {numbers({1, 0})}, false), "") << result;
  }
}

/// TorchScript computes powers of integers in doubles.
TEST(Powers, OfIntegersAreFloats) {
  SavedModule module(
      "def power(self, a: int, b: int):\n  return a ** b\ndef forward(self, x):\n  return x.long() * self.power(3, 2), "
      "x * self.power(3, 39), x.long() * int(self.power(3, 39)), x * self.power(2, -1), x * self.power(10, 30)\n");
  EXPECT_EQ(difference(module, {numbers({1, 2})}, false), "");
}

TEST(Norms, OfDistancesOfHalvesDoNotOverflow) {
  const at::Tensor x = numbers({100, 200, 300, -50, 0, 25}).view({2, 3});
  for (const char* const call :
       {"torch.pairwise_distance(h, -h)", "torch.triplet_margin_loss(h, -h, h + h, reduction=0)"}) {
    SavedModule module(source(std::string("h = x.to(5)\n  return ") + call + ".to(7)"));
    EXPECT_EQ(difference(module, {x}, false), "") << call;
  }
}

TEST(Norms, AreComputedInTheirType) {
  const at::Tensor x = at::arange(1200, at::kDouble).remainder(7).view({4, 300});  // sums of powers are exact in float
  for (const char* const call :
       {"torch.linalg_vector_norm(x.to(15), 2, [1], dtype=6)", "torch.linalg_vector_norm(x.to(15), 1, [1], dtype=6)",
        "torch.norm(x.to(15), 2, [1], False, dtype=6)"}) {
    SavedModule module(source(std::string("return ") + call));
    EXPECT_EQ(difference(module, {x}, false), "") << call;
  }
}

}  // namespace
}  // namespace rannc::test
