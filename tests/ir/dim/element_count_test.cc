// The number of elements of a shape is the product of its sizes, in any order of numbers and symbols.
#include <gtest/gtest.h>

#include <random>

#include "ir/dim/dim.h"

namespace rannc::ir {
namespace {

Dim product(const Shape& shape) {
  Dim count = 1;
  for (const Dim& dim : shape) count = count * dim;
  return count;
}

TEST(ElementCount, IsTheProductOfAllSizes) {
  std::vector<Dim> sizes = {Dim(0), Dim(1), Dim(1), Dim(3), Dim(512), Dim(int64_t{1} << 31), Dim(int64_t{1} << 62)};
  for (const char* text : {"batch", "s", "s - 1", "4*batch", "(h - 1)//2 + 1"})
    sizes.push_back(Dim::parse(text).value());
  std::mt19937_64 random(1);
  uint32_t overflown = 0;
  for (int i = 0; i < 20000; ++i) {
    Shape shape;
    for (uint64_t rank = random() % 6; rank > 0; --rank) shape.push_back(sizes[random() % sizes.size()]);
    const Dim count = element_count(shape), expected = product(shape);
    ASSERT_EQ(count, expected) << str(shape);
    for (const int64_t size : {1, 2, 7}) {
      const Bindings bindings = {{"batch", size}, {"s", size}, {"h", size}};
      ASSERT_EQ(count.evaluate(bindings), expected.evaluate(bindings)) << str(shape);
      overflown += !expected.evaluate(bindings);
    }
  }
  EXPECT_GT(overflown, 1000U);
}

}  // namespace
}  // namespace rannc::ir
