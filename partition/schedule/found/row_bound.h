/// Lower bound on the step of all rows for a cut.
#pragma once

#include <string>
#include <vector>

#include "partition/schedule/found/row_problem.h"

namespace rannc::partition::found {

/// Least times of one micro-batch alone, by slot.
struct SlotPaths {
  std::vector<double> forward;   ///< from the beginning to the start of F
  std::vector<double> gradient;  ///< from the beginning to the start of I or B
  std::vector<double> after;     ///< from the end of I (of B without its W) to the end of the step
};

/// Least times over all classes of micro-batches.
SlotPaths slot_paths(const RowProblem& problem);

struct RowBound {
  double value = 0;
  std::string argument;  ///< `work of device 2`, `memory of device 0` …
};

/// Returns a lower bound on the makespan of every row order, from the arguments in the source: the way of one
/// micro-batch, the work of a device, the time that micro-batches stay in memory. O(slots^2 * classes).
RowBound row_bound(const RowProblem& problem);

}  // namespace rannc::partition::found
