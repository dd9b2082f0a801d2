/// Interpolates a task's cost between measured sample counts.
#pragma once

#include <cstdint>
#include <map>

#include "partition/cost/cost_model.h"

namespace rannc::partition {

/// Cost by number of samples; must not be empty when evaluated.
using SizeCurve = std::map<uint64_t, TaskCost>;

/// Interpolates linearly between two measured sizes. Above the largest size it continues the last segment, or the
/// proportion if there is a single entry. Below the smallest size it uses the proportion. Time is far from linear over
/// the whole range, hence the curve.
TaskCost at_samples(const SizeCurve& curve, uint64_t samples);

/// Makes times non-decreasing in the number of samples with the least sum of squared changes (pool adjacent violators).
/// More samples are never less work, so a decrease is measurement noise. Bytes are unchanged.
void make_monotone(SizeCurve& curve);

}  // namespace rannc::partition
