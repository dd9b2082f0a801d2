/// Memory of a device over its row of a schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/schedule/dependencies.h"

namespace rannc::ir {

/// Bytes of one device over its row.
struct RowMemory {
  std::vector<int64_t> during;  ///< while each action runs: kept values, its results, its temporaries
  int64_t peak = 0;             ///< maximum of `during`; the fixed bytes for an empty row
  size_t peak_at = 0;           ///< first action that reaches it
};

/// Simulates the memory of a row action by action (Beaumont 3.2, W + NCA·a, with the parts named):
///   - The fixed bytes of the device's stages are always held.
///   - F keeps `saved`, or `kept` if an R of the micro-batch follows. It turns received activations into saved ones.
///   - R turns `kept` into `saved`. I adds `pending`.
///   - B or W frees the rest of the micro-batch. The first one of a stage allocates its `gradient`. After the last one,
///     the stage holds `sum` until its S or U.
///   - If a stage specifies the memory of its passes, an action needs that much above the memory in use before it.
///   - In lowered rows a message occupies its receiver from the receive to the computation. It occupies its sender from
///     the computation until send completion (`SendCompletion`), or until the send in inference. A peer that posts its
///     receive earlier frees it earlier, so the peak is an upper bound.
/// Sizes scale with the samples that the replica owns. Valid for any row: values that were never kept free nothing.
RowMemory row_memory(const Dependencies& dependencies, const Schedule& schedule, DeviceId device);

/// Peak bytes of summing gradients over `members` replicas, beside these gradients, which the sums replace: the terms
/// of the others for this replica's part.
inline int64_t gradient_sum_bytes(int64_t bytes, int64_t members) { return bytes - bytes / members; }

/// Only the peak, without allocating `during`.
int64_t row_peak(const Dependencies& dependencies, const Schedule& schedule, DeviceId device);

}  // namespace rannc::ir
