/// Normal numbers that depend on a key and an index alone.
#pragma once

#include <cstdint>

namespace rannc::frontend::zoo {

/// Number `index` of the stream `key`: counter-based (SplitMix64 into Box-Muller), so streams need no state and
/// the same weights come out on every machine.
double normal_number(uint64_t key, uint64_t index);

}  // namespace rannc::frontend::zoo
