/// A task's cost at several sample counts, interpolated between them.
#pragma once

#include <cstdint>
#include <map>

#include "partition/cost/cost_model.h"

namespace rannc::partition {

/// Samples to cost; at least one entry when it is asked.
using SizeCurve = std::map<uint64_t, TaskCost>;

/// Linear between two measured sizes. Above the largest it follows the last segment, or the proportion of a single
/// entry; below the smallest likewise the proportion. Time is far from linear over the whole range, hence the curve.
TaskCost at_samples(const SizeCurve& curve, uint64_t samples);

/// Times that never fall with the number of samples, as close to the curve's as can be in squares (pool adjacent
/// violators): more samples are never less work, so a fall is noise of the measurement. Bytes stay.
void make_monotone(SizeCurve& curve);

}  // namespace rannc::partition
