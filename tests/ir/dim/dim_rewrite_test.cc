// Simplification by equalities: never a value that some size belies.
#include "ir/dim/dim_rewrite.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rannc::ir {
namespace {

using Equalities = std::vector<Simplifier::Equality>;

Dim dim(std::string_view text) { return Dim::parse(text).value(); }

struct Case {
  Equalities equalities;
  const char *given, *simplified;
};

std::vector<Case> cases() {
  const Equalities even = {{dim("2*((h - 1)//2) + 2"), dim("h")}};
  Equalities twice = even;
  twice.emplace_back(dim("2*(((h - 1)//2)//2) + 2"), dim("(h - 1)//2 + 1"));
  const Equalities cut = {{dim("min(40, s)"), dim("s")}};
  return {
      {even, "2*((h - 1)//2) + 2", "h"},
      {even, "16*batch*w*((h - 1)//2) + 16*batch*w", "8*batch*h*w"},
      {even, "min(40, 2*((h - 1)//2) + 2)", "min(40, h)"},
      {even, "(h - 1)//2 + 1", "(h - 1)//2 + 1"},
      {even, "3*((h - 1)//2)", "(h - 1)//2 + h - 2"},
      {even, "t", "t"},
      {twice, "4*(((h - 1)//2)//2) + 4", "h"},
      {cut, "batch*min(40, s) + 1", "batch*s + 1"},
      {cut, "(min(40, s) + 3)//2", "(s + 3)//2"},
      {{{Dim(5), dim("s")}}, "t*((s + 3)//2)", "4*t"},
      {{{dim("t"), dim("2*s + 1")}}, "t*u", "2*s*u + u"},
      {{{dim("(h - 8)//4 + 1"), Dim(1)}}, "7*((h - 8)//4) + 7", "7"},
      {{{dim("(w - 1)//2 + 1"), dim("w//2")}}, "3*((w - 1)//2) + 4", "3*(w//2) + 1"},
      {{{dim("64*(h//2)*(w//2)"), Dim(256)}}, "128*(h//2)*(w//2)", "512"},
  };
}

TEST(DimRewrite, ReplacesTheMoreComplexSizeInsideExpressions) {
  for (const Case& c : cases()) {
    EXPECT_EQ(Simplifier(c.equalities)(dim(c.given)).str(), dim(c.simplified).str()) << c.given;
  }
}

TEST(DimRewrite, IsIdempotentAndTrueWhereTheEqualitiesHold) {
  size_t held = 0;
  for (const Case& c : cases()) {
    const Simplifier simpler(c.equalities);
    const Dim given = dim(c.given), simplified = simpler(given);
    EXPECT_EQ(simpler(simplified), simplified);
    for (int64_t size = 1; size < 65; ++size) {
      for (const int64_t other : {1, 4, 8, 11}) {
        Bindings sizes = {{"batch", 3}, {"h", size}, {"w", other}, {"s", size}, {"u", 7}, {"t", other}};
        if (c.equalities[0].first == dim("t")) sizes["t"] = 2 * size + 1;
        const auto holds = [&](const auto& equality) {
          return equality.first.evaluate(sizes) == equality.second.evaluate(sizes);
        };
        if (!std::all_of(c.equalities.begin(), c.equalities.end(), holds)) continue;
        ++held;
        EXPECT_EQ(given.evaluate(sizes), simplified.evaluate(sizes)) << c.given << " at " << size << ", " << other;
      }
    }
  }
  EXPECT_GT(held, 500U);
}

TEST(DimRewrite, KnowsWhatFollows) {
  const Equalities even = {{dim("2*((h - 1)//2) + 2"), dim("h")}, {dim("2*((w - 1)//2) + 2"), dim("w")}};
  const Simplifier simpler(even);
  EXPECT_TRUE(simpler.implies({dim("4*((h - 1)//2)*((w - 1)//2) + 4*((h - 1)//2) + 4*((w - 1)//2) + 4"), dim("h*w")}));
  EXPECT_TRUE(simpler.implies({dim("h - 2"), dim("2*((h - 1)//2)")}));
  EXPECT_TRUE(simpler.implies({dim("s"), dim("s")}));
  EXPECT_FALSE(simpler.implies({dim("h"), dim("w")}));
  EXPECT_FALSE(simpler.implies({dim("h"), dim("4*(h//4)")}));
}

}  // namespace
}  // namespace rannc::ir
