// The Philox counter-based generator.
#include "runtime/random.h"

#include "ir/split_mix.h"

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

void fill_mask(const MaskKey& key, uint64_t sample, double ratio, std::span<float> factors) {
  const uint64_t mixed_key = ir::split_mix(ir::split_mix(ir::split_mix(key.seed) ^ key.step) ^ key.key);
  const auto limit = static_cast<uint64_t>(ratio * 4294967296.0);
  const auto kept = static_cast<float>(1.0 / (1.0 - ratio));
  for (size_t i = 0; i < factors.size(); i += 4) {
    const uint64_t block = i / 4;
    const auto draws = philox({low(block), high(block), low(sample), high(sample)}, {low(mixed_key), high(mixed_key)});
    for (size_t j = 0; j < 4 && i + j < factors.size(); ++j) factors[i + j] = draws[j] < limit ? 0.0F : kept;
  }
}

}  // namespace rannc::runtime
