// Bounds of symbolic expressions: what must be found, and that nothing is ever claimed that some size belies.
#include "ir/dim/dim_bounds.h"

#include <gtest/gtest.h>

#include <random>

namespace rannc::ir {
namespace {

Dim dim(std::string_view text) { return Dim::parse(text).value(); }

struct Case {
  const char* text;
  Bounds bounds;
};

TEST(DimBounds, SayWhichIsLarger) {
  EXPECT_EQ(larger(dim("s"), dim("s - 1")), dim("s"));
  EXPECT_EQ(smaller(dim("s"), dim("s - 1")), dim("s - 1"));
  EXPECT_EQ(larger(dim("s"), dim("1")), dim("s"));
  EXPECT_EQ(smaller(dim("1"), dim("s")), dim("1"));
  EXPECT_EQ(larger(dim("s"), dim("t")), dim("max(s, t)"));
  EXPECT_EQ(smaller(dim("s"), dim("t")), dim("min(s, t)"));
  EXPECT_EQ(larger(INT64_MIN, INT64_MAX), Dim(INT64_MAX));
  EXPECT_EQ(smaller(INT64_MIN, INT64_MAX), Dim(INT64_MIN));
}

TEST(DimBounds, AreFound) {
  const Case cases[] = {
      {"7", {7, 7}},
      {"s", {1, {}}},
      {"2*s + 3", {5, {}}},
      {"3 - s", {{}, 2}},
      {"s*t - s", {0, {}}},
      {"s*t - s - t + 1", {0, {}}},
      {"s - t", {{}, {}}},
      {"mod(s, 4)", {0, 3}},
      {"3 - mod(s, 4)", {0, 3}},
      {"s - mod(s, 4)", {0, {}}},
      {"t - mod(s, t)", {1, {}}},
      {"s//4", {0, {}}},
      {"(s + 3)//4", {1, {}}},
      {"s - 2*(s//2)", {0, 1}},
      {"4*(s//4) - s", {-3, 0}},
      {"(s + t)//2 - s", {{}, {}}},
      {"max(s, 40)", {40, {}}},
      {"min(s, 40)", {1, 40}},
      {"min(s, 40) - s", {{}, 0}},
      {"s - min(s, 40)", {0, {}}},
      {"max(s - 5, 0) - s", {-5, -1}},
      {"max(s, t) + min(s, t) - s - t", {{}, 0}},
      {"s*max(s - 5, 0)", {0, {}}},
      {"s//t", {0, {}}},
      {"s//(t - 1)", {{}, {}}},
      {"(0 - s)//2", {{}, -1}},
      {"mod(mod(s, 4), 8)", {0, 3}},
  };
  for (const Case& c : cases) {
    const Bounds found = bounds_of(dim(c.text));
    EXPECT_EQ(found.low, c.bounds.low) << c.text;
    EXPECT_EQ(found.high, c.bounds.high) << c.text;
  }
}

// Each has one sign at 1, 2, 7 and 1000003, and another elsewhere.
TEST(DimBounds, SamplesProveNothing) {
  for (const char* text : {"mod(s, 4)", "(s - 4)*(s - 5)", "(s - 2)*(s - 7)*(s - 1000003)*(s - 1)", "5 - mod(s, 9)"}) {
    EXPECT_EQ(sign(dim(text)), std::nullopt) << text;
  }
  EXPECT_FALSE(never_positive(dim("(s - 1)*(s - 2)*(s - 7)*(1000003 - s)")));
  EXPECT_EQ(certainly_equal(dim("min(40, s)"), dim("s")), std::nullopt);
  EXPECT_EQ(certainly_equal(dim("mod(s, 1000004)"), dim("s")), std::nullopt);
}

TEST(DimBounds, EqualityIsDecidedWhereItCanBe) {
  EXPECT_EQ(certainly_equal(dim("s"), dim("s + 1")), false);
  EXPECT_EQ(certainly_equal(dim("min(40, s)"), dim("s + 1")), false);
  EXPECT_EQ(certainly_equal(dim("mod(s, 4)"), dim("4")), false);
  EXPECT_EQ(certainly_equal(dim("2*s"), dim("s")), false);
  EXPECT_EQ(certainly_equal(dim("mod(mod(s, 4), 9)"), dim("mod(s, 4)")), std::nullopt);  // true, but not found
  EXPECT_EQ(certainly_equal(dim("max(s, 1)"), dim("s")), true);
}

TEST(DimBounds, HugeNumbersGiveNoAnswer) {
  const Dim s = Dim::symbol("s"), huge = Dim(INT64_MAX);
  EXPECT_EQ(bounds_of(huge * s), Bounds{});
  EXPECT_EQ(bounds_of(Dim(INT64_MIN) * s + Dim(1)), Bounds{});
  EXPECT_EQ(bounds_of(Dim(INT64_MAX / 4) * s).low, INT64_MAX / 4);
}

TEST(DimBounds, ReducedEqualitiesDropCommonFactors) {
  const auto reduced = reduced_equality(dim("12*batch*s"), dim("8*batch*min(40, s)"));
  EXPECT_EQ(reduced.first, dim("2*min(40, s)"));
  EXPECT_EQ(reduced.second, dim("3*s"));
  EXPECT_EQ(reduced_equality(dim("s"), dim("min(40, s)")), reduced_equality(dim("min(40, s)"), dim("s")));
}

TEST(DimDivision, OfPolynomialsIsExactOrNothing) {
  const char* const exact[][3] = {
      {"16*n*((w - 1)//2) + 16*n", "n*((w - 1)//2) + n", "16"},
      {"s*s - 1", "s + 1", "s - 1"},
      {"a*a*a + b*b*b", "a + b", "a*a - a*b + b*b"},
      {"2*s*t + 2*s + t + 1", "2*s + 1", "t + 1"},
      {"4*batch*s + 4*s", "batch + 1", "4*s"},
      {"a*b*c*(s//2) + b*c", "b*c", "a*(s//2) + 1"},
      {"12*batch", "12", "batch"},
      {"0", "s + 1", "0"},
  };
  for (const auto& [dividend, divisor, quotient] : exact) {
    const auto found = exact_div(dim(dividend), dim(divisor));
    ASSERT_TRUE(found.has_value()) << dividend << " / " << divisor;
    EXPECT_EQ(found->str(), dim(quotient).str());
    EXPECT_EQ(*found * dim(divisor), dim(dividend));
  }
  const char* const none[][2] = {{"s*s + 1", "s + 1"}, {"6*s", "4"}, {"s", "s*t"},
                                 {"7", "2"},           {"s", "0"},   {"s + 1", "s"}};
  for (const auto& [dividend, divisor] : none) EXPECT_FALSE(exact_div(dim(dividend), dim(divisor)).has_value());
}

TEST(DimDivision, RoundedDownHasOneForm) {
  EXPECT_EQ(dim("(s - 1)//2 + 1"), dim("(s + 1)//2"));
  EXPECT_EQ(dim("(s + 4)//2"), dim("s//2 + 2"));
  EXPECT_EQ(dim("mod(s - 1, 4)"), dim("mod(s + 3, 4)"));
  EXPECT_EQ(dim("(batch*s)//(16*batch)"), dim("s//16"));
}

// --- no bound is ever wrong

Dim random_dim(std::mt19937_64& random, int depth) {
  const auto below = [&](uint64_t n) { return random() % n; };
  if (depth == 0 || below(4) == 0) {
    if (below(2) == 0) return static_cast<int64_t>(below(9)) - 3;
    return Dim::symbol(std::array{"s", "t", "u"}[below(3)]);
  }
  const Dim a = random_dim(random, depth - 1), b = random_dim(random, depth - 1);
  switch (below(8)) {
    case 0:
    case 1:
      return a + b;
    case 2:
      return a - b;
    case 3:
      return a * b;
    case 4:
      return b == Dim(0) ? a : floor_div(a, b);
    case 5:
      return b == Dim(0) ? b : mod(a, b);
    case 6:
      return max(a, b);
    default:
      return min(a, b);
  }
}

TEST(DimBounds, HoldAtEverySize) {
  std::mt19937_64 random(20261122);
  int bounded = 0;
  for (int round = 0; round < 1500; ++round) {
    const Dim expression = random_dim(random, 4);
    const Bounds bounds = bounds_of(expression);
    bounded += bounds.low || bounds.high ? 1 : 0;
    for (int probe = 0; probe < 40; ++probe) {
      const auto size = [&] { return static_cast<int64_t>(random() % (probe % 4 == 0 ? 1000 : 6)) + 1; };
      const Bindings sizes = {{"s", size()}, {"t", size()}, {"u", size()}};
      const auto value = expression.evaluate(sizes);
      if (!value) continue;
      ASSERT_TRUE(!bounds.low || *bounds.low <= *value) << expression.str() << " is " << *value;
      ASSERT_TRUE(!bounds.high || *bounds.high >= *value) << expression.str() << " is " << *value;
    }
  }
  EXPECT_GT(bounded, 900);  // what is never wrong must not be empty either
}

// An expression as a hostile file may nest it is answered, in time that its length does not multiply.
TEST(DimBounds, DeepNestingEnds) {
  Dim deep = Dim::symbol("s");
  const Dim t = Dim::symbol("t");
  for (int i = 0; i < 40; ++i) {
    deep = max(min(deep, t + Dim(i)), mod(t, Dim(i + 2)) - Dim(i)) + floor_div(t * deep, Dim(i + 3));
    if (deep.str().size() > 100000) break;
  }
  const auto value = deep.evaluate({{"s", 1}, {"t", 1}});
  const Bounds bounds = bounds_of(deep);
  ASSERT_TRUE(value);
  EXPECT_TRUE(!bounds.low || *bounds.low <= *value);
}

}  // namespace
}  // namespace rannc::ir
