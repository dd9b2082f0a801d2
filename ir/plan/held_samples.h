/// Memory of the samples that a device holds during a step.
#pragma once

#include <cstdint>

#include "ir/base/ids.h"

namespace rannc::ir {

struct Plan;

/// Bytes of the graph inputs that each device of a stage holds during the whole step: its share of the mini-batch. The
/// stage's `fixed_bytes` contain them.
int64_t held_sample_bytes(const Plan& plan, StageId stage);

}  // namespace rannc::ir
