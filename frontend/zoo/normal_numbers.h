/// Normally distributed numbers that depend only on a key and an index.
#pragma once

#include <cstdint>

namespace rannc::frontend::zoo {

/// Returns number `index` of the stream `key`. The generator is counter-based (SplitMix64 into Box-Muller), so streams
/// need no state and weights are the same on every machine.
double normal_number(uint64_t key, uint64_t index);

}  // namespace rannc::frontend::zoo
