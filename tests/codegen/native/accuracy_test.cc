// Largest errors of the functions of codegen/native/vector_math.h, and their values where formulas end.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <future>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/codegen/native/variants.h"

namespace rannc::native_kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();
constexpr float kNormal = std::numeric_limits<float>::min();
constexpr float kMost = std::numeric_limits<float>::max();

struct Function {
  const char* name;
  double (*exact)(double);
  double most_ulps;        // of the header's list
  bool symmetric = false;  // |f(-x)| = |f(x)|
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const Function kFunctions[] = {
    {"exp", std::exp, 1.1},    {"expm1", std::expm1, 2},       {"log", std::log, 1},
    {"log1p", std::log1p, 2},  {"tanh", std::tanh, 1.5, true}, {"erf", std::erf, 1.5, true},
    {"sigmoid", sigmoid, 2.5}, {"sin", std::sin, 2, true},     {"cos", std::cos, 2, true},
};

/// The fastest variant; variants_test compares the others with it bit by bit.
const Table<float>& kernels() { return usable_variants().back()->of_float; }

void run(const Function& function, const float* x, float* to, std::int64_t count) {
  for (int i = 0; i < kernels().unary_count; ++i)
    if (std::strcmp(kernels().unary[i].name, function.name) == 0) return kernels().unary[i].run(x, to, count);
  FAIL() << "no loop " << function.name;
}

/// Distance in units of the last place of the exact result; infinity follows the largest float.
double ulps(float result, double exact) {
  if (std::isnan(result) && std::isnan(exact)) return 0;
  if (std::isnan(result) || std::isnan(exact)) return HUGE_VAL;
  if (static_cast<float>(exact) == result) return 0;
  const double limit = std::ldexp(1.0, 128);
  const double to = std::clamp<double>(exact, -limit, limit), from = std::clamp<double>(result, -limit, limit);
  const int exponent = std::max(std::min(std::ilogb(to), 127) - 23, -149);
  return std::abs(from - to) / std::ldexp(1.0, exponent);
}

/// sigmoid is 0 from where exp overflows, as PyTorch's is, though floats go on to -103.
bool is_judged(const Function& function, float x) { return function.exact != sigmoid || !(x < -88); }

struct Worst {
  double ulps = 0;
  float at = 0;
};

/// Over every `stride`-th bit pattern of 32 bits. All of them of a symmetric function are those of numbers >= 0.
Worst worst_of(const Function& function, std::uint64_t stride) {
  constexpr std::size_t kBlock = 4096;
  std::vector<float> x(kBlock), to(kBlock);
  const std::uint64_t last = stride == 1 && function.symmetric ? INT32_MAX : UINT32_MAX;
  Worst worst;
  for (std::uint64_t bits = 0; bits <= last;) {
    std::size_t count = 0;
    for (; count < kBlock && bits <= last; bits += stride)
      x[count++] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    run(function, x.data(), to.data(), static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_judged(function, x[i])) continue;
      const double error = ulps(to[i], function.exact(x[i]));
      if (error > worst.ulps) worst = {error, x[i]};
    }
  }
  return worst;
}

/// Functions are judged beside each other: all floats take minutes each.
void judge(std::uint64_t stride) {
  std::vector<std::future<Worst>> found;
  for (const Function& function : kFunctions)
    found.push_back(std::async(std::launch::async, [&function, stride] { return worst_of(function, stride); }));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Worst worst = found[i].get();
    EXPECT_LE(worst.ulps, kFunctions[i].most_ulps) << kFunctions[i].name << " of " << worst.at;
    std::printf("%-8s %.4f ulp at %.9g\n", kFunctions[i].name, worst.ulps, worst.at);
  }
}

TEST(VectorMath, IsAccurateAtEvery1999thFloat) { judge(1999); }
TEST(VectorMath, IsAccurateAtAllFloats) { judge(1); }

TEST(VectorMath, HoldsAtTheEdges) {
  const std::vector<float> edges = {0,        -0.0F,      kLeast,   -kLeast,  kNormal,   -kNormal,   1e-20F, -1e-20F,
                                    1,        -1,         kMost,    -kMost,   kInfinity, -kInfinity, kNan,   88.722839F,
                                    88.7229F, -87.33655F, -103.97F, -104.5F,  0.6F,      -0.6F,      3.999F, 4,
                                    -4.001F,  9.01F,      -9.02F,   0.25F,    0.75F,     3.75F,      8192,   8192.5F,
                                    -1e5F,    1e10F,      1e30F,    0.34657F, -0.34658F, 1.4142135F};
  std::vector<float> to(edges.size());
  for (const Function& function : kFunctions) {
    run(function, edges.data(), to.data(), static_cast<std::int64_t>(edges.size()));
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (!is_judged(function, edges[i])) continue;
      const double exact = function.exact(edges[i]);
      EXPECT_LE(ulps(to[i], exact), function.most_ulps) << function.name << " of " << edges[i] << " is " << to[i];
      // An exact zero, and a function that keeps its argument's sign, keep it at 0 too.
      EXPECT_TRUE(exact != 0 || std::signbit(to[i]) == std::signbit(exact)) << function.name << " of " << edges[i];
    }
  }
}

TEST(VectorMath, ReachesOne) {
  for (const char* name : {"tanh", "erf"}) {
    const Function function = *std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                            [&](const Function& f) { return std::strcmp(f.name, name) == 0; });
    const std::vector<float> x = {10, -10, kMost, -kMost, kInfinity, -kInfinity};
    std::vector<float> to(x.size());
    run(function, x.data(), to.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(to[i], x[i] > 0 ? 1 : -1) << name << " of " << x[i];
  }
}

void pow_of(const std::vector<float>& x, const std::vector<float>& y, std::vector<float>& to) {
  const Table<float>& table = kernels();
  const Binary<float>* pow = std::find_if(table.binary, table.binary + table.binary_count,
                                          [](const Binary<float>& b) { return std::strcmp(b.name, "pow") == 0; });
  pow->run(x.data(), y.data(), to.data(), static_cast<std::int64_t>(x.size()));
}

TEST(VectorMath, PowIsTheLibrarysAtTheEdges) {
  const float edges[] = {0,          -0.0F,       1,        -1,        kInfinity, -kInfinity, kNan,     2,
                         -2,         3,           -3,       0.5,       -0.5F,     kLeast,     -kLeast,  kMost,
                         -kMost,     1e-40F,      16777215, -16777215, 8388609,   -8388607,   33554432, 4194304.5F,
                         1.0000001F, 0.99999994F, 127,      -149,      -150,      100.5F};
  std::vector<float> x, y;
  for (const float of : edges)
    for (const float to : edges) x.push_back(of), y.push_back(to);
  std::vector<float> result(x.size());
  pow_of(x, y, result);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
    EXPECT_LE(ulps(result[i], exact), 1) << x[i] << " to the " << y[i] << " is " << result[i];
    EXPECT_TRUE(std::isnan(exact) || std::signbit(result[i]) == std::signbit(exact)) << x[i] << " to the " << y[i];
  }
}

TEST(VectorMath, PowIsAccurate) {
  // Bases over all exponents, powers over all results; then bases near 1, whose logarithms cancel.
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-149, 128), power(-150, 128), near(0.5F, 2), wide(-300, 300);
  constexpr std::size_t kCount = 500000;
  std::vector<float> x(kCount), y(kCount), to(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    x[i] = i % 2 == 0 ? std::exp2(exponent(random)) : near(random);
    y[i] = i % 2 == 0 ? power(random) / std::log2(x[i]) : wide(random);
  }
  pow_of(x, y, to);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
    ASSERT_LE(ulps(to[i], exact), 1) << x[i] << " to the " << y[i] << " is " << to[i];
  }
}

TEST(VectorMath, OfDoubleIsTheLibrarys) {
  const Table<double>& table = usable_variants().back()->of_double;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> any(-20, 20);
  std::vector<double> x(999), to(999);
  for (double& number : x) number = any(random);
  for (const Function& function : kFunctions)
    for (int i = 0; i < table.unary_count; ++i) {
      if (std::strcmp(table.unary[i].name, function.name) != 0) continue;
      table.unary[i].run(x.data(), to.data(), 999);
      for (std::size_t k = 0; k < x.size(); ++k) {
        const double exact = function.exact(x[k]);
        // One rounding apart at most, where the library has a function for constants.
        EXPECT_TRUE(std::isnan(exact) || std::abs(to[k] - exact) <= 1e-15 * std::abs(exact))
            << function.name << " of " << x[k];
      }
    }
}

}  // namespace
}  // namespace rannc::native_kernels
