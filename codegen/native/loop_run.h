/// The interface of a generated loop, for its callers and for loops, which are compiled apart.
#pragma once

#include <cstdint>

namespace rannc::native {

/// Random numbers that a loop makes. Those of a sample lie one after the other.
struct LoopRandom {
  uint64_t key, first_sample;
  int64_t elements;  ///< of a sample
  bool ones;         ///< all numbers are 1
};

/// An operand over rows and columns: row r is at index
/// r / divisor % period + r / outer_divisor % outer_period * period.
struct LoopOperand {
  const void* data;
  int64_t divisor, period, outer_divisor, outer_period;
  LoopRandom random;  ///< instead of data
};

/// One call of a loop.
struct LoopRun {
  const LoopOperand* in;
  void* const* out;  ///< results; of sums over rows: those of the chunk of rows
  int64_t columns;   ///< of a row; the last row may be shorter, if rows are pieces of one long row
  int64_t elements;  ///< of all rows
  char* scratch;     ///< rows of 64-byte lines that passes hand over
};
using Loop = void (*)(const LoopRun& run, int64_t first, int64_t last);

}  // namespace rannc::native
