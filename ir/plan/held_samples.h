/// What a device holds of a mini-batch's samples.
#pragma once

#include <cstdint>

#include "ir/base/ids.h"

namespace rannc::ir {

struct Plan;

/// Bytes of the inputs of the graph that each device of a stage holds during all of a step: its share of the
/// mini-batch. They are part of the stage's `fixed_bytes`, where no weight is.
int64_t held_sample_bytes(const Plan& plan, StageId stage);

}  // namespace rannc::ir
