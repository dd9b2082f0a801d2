/// Fits the times of blocks to measured stages.
#pragma once

#include <vector>

#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Returns the problem's times, scaled block by block so that the sums of the measured stages
/// (`StageProblem::measured`) come close to their measured times. Forward and backward passes have factors of their
/// own, per kind of device and number of samples; factors are interpolated between the measured numbers. A block
/// without a measurement at a number of samples takes the mean factor of those with one. Kinds without measurements are
/// unchanged. Repeats proportional fitting, so stages that contradict each other are met on average.
std::vector<TimeTable> fitted_times(const StageProblem& problem);

}  // namespace rannc::partition
