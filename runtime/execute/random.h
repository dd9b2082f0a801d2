/// Random numbers that depend on what they are for, not on who draws them or when.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ir/graph/graph.h"

namespace rannc::runtime {

/// Philox 4x32-10 (Salmon et al., «Parallel random numbers: as easy as 1, 2, 3», SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Of which step of which run.
struct DrawnIn {
  uint64_t seed = 0, step = 0;
};

/// The numbers of one sample. Element i depends on the draw, `in`, `sample` (its number within the mini-batch) and i
/// alone.
void fill(const ir::RandomInput& draw, const DrawnIn& in, uint64_t sample, std::span<float> numbers);

}  // namespace rannc::runtime
