/// Policies for list scheduling: a set to begin with, and changes of one.
#pragma once

#include <vector>

#include "partition/schedule/found/list_rows.h"
#include "partition/schedule/found/random.h"

namespace rannc::partition::found {

/// Policies worth trying on any cut: depths by position, by latency and by memory alone; weight gradients at once or
/// in gaps; backward passes first, forward passes first, in turn, or by times of a steady pipeline.
std::vector<Policy> first_policies(const RowProblem& problem);

/// A policy with a few numbers changed.
Policy changed(const RowProblem& problem, const Policy& policy, Random& random);

/// Times by lane and position of rows, and the part of them that is changed at random.
struct NoisyTimes {
  const std::vector<std::vector<double>>& times;
  double noise = 0;                 ///< at most
  double first = 0, last = kNever;  ///< times within are changed
};

/// A policy that starts passes in the order of given times.
Policy by_times(const RowProblem& problem, const LaneRows& rows, const NoisyTimes& given, Random& random);

}  // namespace rannc::partition::found
