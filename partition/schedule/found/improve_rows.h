/// Improves rows by moving computations within them.
#pragma once

#include <cstdint>

#include "partition/schedule/found/order_model.h"
#include "partition/schedule/found/random.h"

namespace rannc::partition::found {

struct ImprovedRows {
  LaneRows rows;
  double makespan = kNever;  ///< by the longest-path model
};

/// Moves letters until the model has simulated `actions` more, or until `enough` is reached. Rows must fit the limits
/// of the lanes and stay within them. Late acceptance hill climbing (Burke, Bykov 2017): a change is kept if it is no
/// worse than the current rows or than those of some steps ago. Not optimal.
ImprovedRows improve_rows(const RowProblem& problem, OrderModel& model, LaneRows rows, uint64_t actions, double enough,
                          Random& random);

}  // namespace rannc::partition::found
