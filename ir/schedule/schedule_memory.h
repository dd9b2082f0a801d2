/// How many bytes a row of a schedule keeps alive.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/schedule/dependencies.h"

namespace rannc::ir {

/// Bytes of one device over its row.
struct RowMemory {
  std::vector<int64_t> during;  ///< while each action runs: what is kept, what it makes, its temporaries
  int64_t peak = 0;             ///< largest of `during`, or of the fixed bytes of an empty row
  size_t peak_at = 0;           ///< first action that reaches it
};

/// Follows the row action by action (Beaumont 3.2, W + NCA·a, with the parts named):
///   fixed bytes of the device's stages, always; F keeps `saved`, or `kept` where an R of the micro-batch follows, and
///   turns received activations into saved ones; R turns `kept` into `saved`; I adds `pending`; B or W free what is
///   left of the micro-batch, and the first of a stage leaves its `gradient`. Where a stage says what its passes need,
///   an action needs that beyond what was there before it. In lowered rows a message is alive at its receiver
///   from the receive to the computation, and at its sender from the computation until the send has certainly completed
///   (`SendCompletion`; in inference until the send). A peer that posts its receive earlier frees it earlier, so the
///   peak is an upper bound. Sizes scale with the samples that the replica owns.
/// Meaningful for any row: what was never kept frees nothing.
RowMemory row_memory(const Dependencies& dependencies, const Schedule& schedule, DeviceId device);

/// Peak alone, without the memory of `during`.
int64_t row_peak(const Dependencies& dependencies, const Schedule& schedule, DeviceId device);

}  // namespace rannc::ir
