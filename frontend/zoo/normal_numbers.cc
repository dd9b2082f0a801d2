#include "frontend/zoo/normal_numbers.h"

#include <cmath>
#include <numbers>

namespace rannc::frontend::zoo {

namespace {
uint64_t split_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
// In (0, 1]: the logarithm below stays finite.
double uniform(uint64_t bits) { return (static_cast<double>(bits >> 11) + 1.0) * 0x1p-53; }
}  // namespace

double normal_number(uint64_t key, uint64_t index) {
  const uint64_t first = split_mix(split_mix(key) ^ (index * 2));
  const uint64_t second = split_mix(split_mix(key) ^ (index * 2 + 1));
  return std::sqrt(-2.0 * std::log(uniform(first))) * std::cos(2.0 * std::numbers::pi * uniform(second));
}

}  // namespace rannc::frontend::zoo
