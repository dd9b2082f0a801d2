/// Computes the number of micro-batches whose activations a stage holds at once.
#pragma once

#include <cstdint>

namespace rannc::partition {

/// Rule for the number of micro-batches that a stage holds, by its distance from the last stage.
enum class InFlight : uint8_t {
  kAll,       ///< fill and drain (GPipe): every micro-batch
  kOneFOneB,  ///< 1F1B, DAPPLE's P_A: the number of stages from here to the end
  kTwice,     ///< DAPPLE's P_B: twice that minus one
  kOne,       ///< one, the minimum: what does not fit then fits under no schedule
};

/// Number of micro-batches that the stage `from_end` (1 = the last) holds.
uint64_t in_flight(InFlight rule, uint32_t from_end, uint64_t micro_batches);

}  // namespace rannc::partition
