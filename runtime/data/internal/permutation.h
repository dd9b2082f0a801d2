/// A seeded permutation of a range of numbers.
#pragma once

#include <bit>
#include <cstdint>

#include "ir/base/diagnostic.h"
#include "ir/base/split_mix.h"

namespace rannc::runtime {

/// A bijection of [0, size), computed per number without a table. It enciphers the number in a Feistel network over
/// the smallest even number of bits, and repeats this until the result is below `size`: less than four times on
/// average (Black and Rogaway, «Ciphers with arbitrary finite domains», CT-RSA 2002). Gives the same numbers on every
/// machine.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key)
      : size_(size), key_(key), half_bits_((std::bit_width(size > 1 ? size - 1 : 1) + 1) / 2) {}

  uint64_t operator()(uint64_t number) const {
    RANNC_CHECK(number < size_) << number << " of " << size_;
    do {
      number = enciphered(number);
    } while (number >= size_);
    return number;
  }

 private:
  static constexpr uint64_t kRounds = 8;

  uint64_t enciphered(uint64_t number) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = number >> half_bits_, right = number & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = ir::split_mix(ir::split_mix(key_ ^ round) ^ right) & mask;
      const uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

  uint64_t size_, key_;
  int half_bits_;
};

}  // namespace rannc::runtime
