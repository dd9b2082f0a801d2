#include "frontend/zoo/normal_numbers.h"

#include <cmath>
#include <numbers>

#include "ir/base/split_mix.h"

namespace rannc::frontend::zoo {

namespace {
// In (0, 1]: the logarithm below stays finite.
double uniform(uint64_t bits) { return (static_cast<double>(bits >> 11) + 1.0) * 0x1p-53; }
}  // namespace

double normal_number(uint64_t key, uint64_t index) {
  const uint64_t first = ir::split_mix(ir::split_mix(key) ^ (index * 2));
  const uint64_t second = ir::split_mix(ir::split_mix(key) ^ (index * 2 + 1));
  return std::sqrt(-2.0 * std::log(uniform(first))) * std::cos(2.0 * std::numbers::pi * uniform(second));
}

}  // namespace rannc::frontend::zoo
