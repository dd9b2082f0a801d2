/// Counter-based random inputs that do not depend on device or order.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ir/graph/graph.h"

namespace rannc::runtime {

/// Philox 4x32-10 (Salmon et al., «Parallel random numbers: as easy as 1, 2, 3», SC 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The run and step that random numbers belong to.
struct RandomStep {
  uint64_t seed = 0, step = 0;
};

/// The key of a random input's numbers in a step.
uint64_t random_key(const ir::RandomInput& random_input, const RandomStep& in);

/// Fills `numbers` with the random input of one sample. Element i depends only on `random_input`, `in`, `sample` (the
/// index within the mini-batch) and i.
void fill(const ir::RandomInput& random_input, const RandomStep& in, uint64_t sample, std::span<float> numbers);

}  // namespace rannc::runtime
