// Implements the Philox counter-based generator.
#include "runtime/execute/random.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/base/split_mix.h"

namespace rannc::runtime {
namespace {

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * counter[0], b = uint64_t{0xcd9e8d57} * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return counter;
}

namespace {

using Four = std::array<uint32_t, 4>;

/// Multiples of 2^-24 in [0, 1), which floats represent exactly.
float uniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

/// Box and Muller, «A note on the generation of random normal deviates», 1958. Maps two numbers to two. Adding
/// 2^-24 keeps the argument of the logarithm above 0.
std::array<float, 4> normal(const Four& bits) {
  std::array<float, 4> numbers;
  for (size_t i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2 * std::log(double{uniform(bits[i])} + 0x1p-24));
    const double angle = 2 * std::numbers::pi * uniform(bits[i + 1]);
    numbers[i] = static_cast<float>(radius * std::cos(angle));
    numbers[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return numbers;
}

/// Fills `numbers` with results of `numbers_of`, which converts 32 random bits for each of four elements.
template <class NumbersOf>
void fill_by_four(uint64_t key, uint64_t sample, std::span<float> numbers, NumbersOf&& numbers_of) {
  for (size_t i = 0; i < numbers.size(); i += 4) {
    const uint64_t block = i / 4;
    const std::array<float, 4> four =
        numbers_of(philox({low(block), high(block), low(sample), high(sample)}, {low(key), high(key)}));
    std::copy_n(four.begin(), std::min<size_t>(4, numbers.size() - i), numbers.begin() + static_cast<ptrdiff_t>(i));
  }
}

}  // namespace

uint64_t random_key(const ir::RandomInput& random_input, const RandomStep& in) {
  return ir::split_mix(ir::split_mix(ir::split_mix(in.seed) ^ in.step) ^ random_input.key);
}

void fill(const ir::RandomInput& random_input, const RandomStep& in, uint64_t sample, std::span<float> numbers) {
  const uint64_t key = random_key(random_input, in);
  switch (random_input.of) {
    case ir::RandomInput::Of::kUniform:
      return fill_by_four(key, sample, numbers, [](const Four& bits) {
        std::array<float, 4> four;
        std::transform(bits.begin(), bits.end(), four.begin(), uniform);
        return four;
      });
    case ir::RandomInput::Of::kNormal:
      return fill_by_four(key, sample, numbers, normal);
    case ir::RandomInput::Of::kBernoulli:
      break;
  }
  const auto limit = static_cast<uint64_t>(random_input.drop * 4294967296.0);
  const auto kept = static_cast<float>(1.0 / (1.0 - random_input.drop));
  fill_by_four(key, sample, numbers, [&](const Four& bits) {
    std::array<float, 4> factors;
    for (size_t j = 0; j < 4; ++j) factors[j] = bits[j] < limit ? 0.0F : kept;
    return factors;
  });
}

}  // namespace rannc::runtime
