/// Number of micro-batches whose activations a stage holds at once.
#pragma once

#include <cstdint>

namespace rannc::partition {

/// A rule for how many micro-batches a stage holds, by its distance from the last stage.
enum class InFlight : uint8_t {
  kAll,       ///< fill and drain (GPipe): every micro-batch
  kOneFOneB,  ///< 1F1B, DAPPLE's P_A: as many as stages from here to the end
  kTwice,     ///< DAPPLE's P_B: twice that minus one
  kOne,       ///< one, the least that is possible: what does not fit then fits under no schedule
};

/// Micro-batches that the stage `from_end` (1 = the last) holds.
uint64_t in_flight(InFlight rule, uint32_t from_end, uint64_t micro_batches);

}  // namespace rannc::partition
