/// Bytes in use along a row, as `ir::row_peak` counts compute-only rows but for first and last gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/schedule/found/row_words.h"

namespace rannc::partition::found {

/// Bytes in use on a lane while its row is built or followed.
class LaneBytes {
 public:
  explicit LaneBytes(const RowProblem& problem) : problem_(&problem) {}

  /// Starts an empty row.
  void clear(uint32_t lane);
  int64_t live() const { return live_; }
  /// Most bytes during the letter, and those after it. `rebuilt`: whether an R of its micro-batch follows or precedes.
  struct Use {
    int64_t most = 0, after = 0;
  };
  Use use(const Letter& letter, bool rebuilt) const;
  void add(const Letter& letter, bool rebuilt);
  /// Adds bytes that no letter has.
  void grow(int64_t bytes) { live_ += bytes; }

  /// Most bytes in use along a whole row.
  int64_t peak(uint32_t lane, const LaneRow& row);

 private:
  const RowProblem* problem_;
  int64_t live_ = 0;
  std::vector<bool> begun_;    ///< by slot: gradients are there
  std::vector<bool> rebuilt_;  ///< by slot and micro-batch; of `peak`
};

}  // namespace rannc::partition::found
