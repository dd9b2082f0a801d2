/// Prices tasks by a roofline, with no device at hand.
#pragma once

#include <memory>

#include "partition/cost/cost_model.h"

namespace rannc::partition {

/// How a backward pass relates to its forward pass.
struct AnalyticOptions {
  double input_gradient = 1;   ///< work and traffic of I in units of F
  double weight_gradient = 1;  ///< of W, where the task has parameters
};

/// time = max(flops / rate, traffic / bandwidth) + launch, per pass; W also adds to the accumulated gradient, which
/// makes many small micro-batches dearer than few large ones. Never fails. Limit: no caches, no fusion; sums of tasks
/// overestimate a fused stage (RaNNC IV.C).
std::unique_ptr<CostModel> analytic_costs(AnalyticOptions options = {});

}  // namespace rannc::partition
