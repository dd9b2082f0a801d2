/// Random numbers that depend on what they are for, not on who draws them or when.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace rannc::runtime {

/// Philox 4x32-10 (Salmon et al., «Parallel random numbers: as easy as 1, 2, 3», SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// What a mask is drawn for.
struct MaskKey {
  uint64_t seed = 0, step = 0, key = 0;
};

/// The dropout factors of one sample: 0 with probability `ratio`, else 1 / (1 - ratio). Element i depends on `key`,
/// `sample` (its number within the mini-batch) and i alone.
void fill_mask(const MaskKey& key, uint64_t sample, double ratio, std::span<float> factors);

}  // namespace rannc::runtime
