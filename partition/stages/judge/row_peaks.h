/// Computes the memory of a device from its row of a schedule.
#pragma once

#include <span>
#include <vector>

#include "ir/schedule/schedule.h"
#include "partition/stages/pricing/stage_bytes.h"

namespace rannc::partition {

/// Peak bytes of one replica of `stages`, which share a device, over the compute-only `row`. `bytes` holds those of
/// every stage of the plan, `all` is the number of micro-batches. For a single stage these are the bytes of the largest
/// number of micro-batches that it holds (`StageBytes::peak`, `parted_peak`), as bounds assume. For several stages the
/// row is followed action by action, because their peaks need not coincide.
double row_peak_bytes(const std::vector<ir::Action>& row, std::span<const StageId> stages,
                      std::span<const StageBytes> bytes, uint64_t all);

}  // namespace rannc::partition
