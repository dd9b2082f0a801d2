// Extents of affine axes determine their symbols, and extents that no size gives are found.
#include "ir/dim/affine.h"

#include <gtest/gtest.h>

#include <random>

namespace rannc::ir {
namespace {

Dim dim(std::string_view text) { return Dim::parse(text).value(); }

TEST(Affine, Forms) {
  for (const char* text : {"s", "32*s", "s + 3", "4*s - 2", "s + s"}) EXPECT_TRUE(affine(dim(text))) << text;
  for (const char* text : {"7", "s*s", "s*t", "s + t", "floor(s/2)", "3 - s", "max(s, 4)", "mod(s, 4)"}) {
    EXPECT_FALSE(affine(dim(text))) << text;
  }
  const auto found = affine(dim("4*s - 2"));
  EXPECT_EQ(found->symbol, "s");
  EXPECT_EQ(found->scale, 4);
  EXPECT_EQ(found->offset, -2);
}

// For random scales, offsets and extents: an inverted extent is that of its size, and an extent is refused only if no
// size gives it.
TEST(Affine, InversionIsExact) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  const auto number = [&](int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(random); };
  for (int i = 0; i < 2000; ++i) {
    const int64_t scale = number(1, 40), offset = number(-50, 50), extent = number(-60, 2000);
    const Dim given = Dim(scale) * Dim::symbol("k") + Dim(offset);
    Bindings bindings;
    const bool bound = bind_extent(given, extent, bindings).possible;
    bool exists = false;
    for (int64_t k = 1; k <= 2100 && !exists; ++k) exists = scale * k + offset == extent;
    ASSERT_EQ(bound, exists) << given.str() << " = " << extent;
    if (bound) {
      ASSERT_EQ(given.evaluate(bindings), extent) << given.str();
    }
  }
}

TEST(Affine, BoundSymbolsLeaveOneToFind) {
  Bindings bindings = {{"s", 5}};
  EXPECT_TRUE(bind_extent(dim("s + past"), 12, bindings).possible);
  EXPECT_EQ(bindings.at("past"), 7);
  EXPECT_TRUE(bind_extent(dim("s + past"), 99, bindings).possible) << "compared by the caller, not here";
  EXPECT_TRUE(bind_extent(dim("a*b"), 12, bindings).possible);
  EXPECT_FALSE(bindings.contains("a"));
  EXPECT_TRUE(bind_extent(dim("s*b"), 15, bindings).possible);
  EXPECT_EQ(bindings.at("b"), 3);
  EXPECT_FALSE(bind_extent(dim("32*k"), 225, bindings).possible);
  EXPECT_FALSE(bind_extent(dim("k"), 0, bindings).possible);
  EXPECT_FALSE(bind_extent(dim("k - 1000"), INT64_MAX, bindings).possible);
}

}  // namespace
}  // namespace rannc::ir
