/// The finaliser of SplitMix64.
#pragma once

#include <cstdint>

namespace rannc::ir {

/// A bijection of 64-bit numbers in which every bit of the result depends on every bit of `x` (Steele, Lea and Flood,
/// «Fast splittable pseudorandom number generators», OOPSLA 2014). Gives the same numbers on every machine.
constexpr uint64_t split_mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace rannc::ir
