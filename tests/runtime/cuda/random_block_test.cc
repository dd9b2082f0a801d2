// The random numbers of GPUs are those of the processor.
#include "runtime/cuda/random_block.h"

#include <gtest/gtest.h>

#include <bit>

#include "runtime/execute/random.h"

namespace rannc::runtime {
namespace {

std::vector<float> by_blocks(const DeviceRandom& draw, uint64_t sample) {
  std::vector<float> numbers;
  for (uint64_t block = 0; 4 * block < draw.elements; ++block) {
    for (const float number : cuda::random_block(draw, draw.key, sample, block).values) numbers.push_back(number);
  }
  numbers.resize(draw.elements);
  return numbers;
}

void expect_same(const ir::RandomInput& of, DeviceRandom draw) {
  const RandomStep in{.seed = 17, .step = 1ull << 33};
  draw.key = random_key(of, in);
  for (const uint64_t elements : {1, 2, 3, 4, 5, 1023}) {
    draw.elements = elements;
    for (const uint64_t sample : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 40}) {
      std::vector<float> expected(elements);
      fill(of, in, sample, expected);
      const std::vector<float> found = by_blocks(draw, sample);
      for (size_t i = 0; i < elements; ++i) {
        EXPECT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i])) << "number " << i;
      }
    }
  }
}

TEST(RandomBlock, UniformNumbers) {
  expect_same({.of = ir::RandomInput::Of::kUniform, .key = 3}, {.of = DeviceRandom::Of::kUniform});
}
TEST(RandomBlock, NormalNumbers) {
  expect_same({.of = ir::RandomInput::Of::kNormal, .key = 4}, {.of = DeviceRandom::Of::kNormal});
}
TEST(RandomBlock, FactorsOfDropout) {
  for (const double drop : {0.1, 0.5, 0.9999}) {
    expect_same({.of = ir::RandomInput::Of::kBernoulli, .drop = drop, .key = 5},
                {.of = DeviceRandom::Of::kBernoulli, .drop = drop});
  }
}

}  // namespace
}  // namespace rannc::runtime
