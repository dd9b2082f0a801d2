/// The interface of a generated loop, for its callers and for loops, which are compiled apart.
#pragma once

#include <cstdint>

namespace rannc::native {

/// An operand over rows and columns: row r is at index r / divisor % period.
struct LoopOperand {
  const void* data;
  int64_t divisor, period;
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
