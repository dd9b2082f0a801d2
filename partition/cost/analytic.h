/// Prices tasks with a roofline model.
#pragma once

#include <memory>

#include "partition/cost/cost_model.h"

namespace rannc::partition {

/// Cost of a backward pass relative to its forward pass.
struct AnalyticOptions {
  double input_gradient = 1;   ///< work and traffic of I in units of F
  double weight_gradient = 1;  ///< of W, where the task has parameters
  Tf32 products = Tf32::kNever;
};

/// Prices each pass as max(flops / rate of the element type, traffic / bandwidth) + launch. W also adds to the
/// accumulated gradient, so many small micro-batches cost more than few large ones. Never fails. Limits: no caches, no
/// fusion; sums over tasks overestimate a fused stage (RaNNC IV.C).
std::unique_ptr<CostModel> analytic_costs(AnalyticOptions options = {});

}  // namespace rannc::partition
