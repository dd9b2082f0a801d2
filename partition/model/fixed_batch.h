/// Plans a model with a fixed batch size as one indivisible sample.
#pragma once

#include "partition/model/plan_options.h"

namespace rannc::partition {

inline constexpr const char* kDivisible =
    "a mini-batch can be divided if samples are independent of each other, except in a loss that is their sum or mean";

/// Returns an error at the task that mixes samples, by `options.batching`, if `options` demand several micro-batches or
/// replicas although no symbol counts samples. [P15]
Result<void> check_undivided(const ir::Graph& graph, const PlanOptions& options);

/// Returns the options to search with. They are unchanged if a symbol counts samples. Otherwise the mini-batch cannot
/// be split among micro-batches or replicas, so all of it counts as one sample: one micro-batch, one device per stage.
/// Fails if `options` demand a mini-batch other than the model's, several micro-batches, or replicas. [P15]
Result<PlanOptions> with_fixed_batch(const ir::Graph& graph, PlanOptions options);

/// Restores the model's number of samples in a plan that was made with such options.
void count_fixed_samples(ir::Plan& plan);

}  // namespace rannc::partition
