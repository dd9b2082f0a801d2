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
///
/// On a GPU, tasks without work and traffic (views) run no kernel and cost nothing. Where the kind has `KernelRates`,
/// those replace the rates of their families. Its multiprocessors then compute a product in rounds of tiles of the
/// result, 128 x 128 by tensor cores and 64 x 64 else. Products of fewer tiles than multiprocessors are split along the
/// summed axis into parts of at least 512 ("wave quantization" and "split-K" of NVIDIA's guide to matrix products).
std::unique_ptr<CostModel> analytic_costs(AnalyticOptions options = {});

}  // namespace rannc::partition
