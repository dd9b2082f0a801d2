/// Plans a model whose batch is a number as one sample that nothing splits.
#pragma once

#include "partition/model/plan_model.h"

namespace rannc::partition {

/// The options to search with. As they are, where a symbol counts samples. Else no micro-batch and no replica may have
/// a part of the mini-batch, so that the whole of it is one sample: one micro-batch, one device a stage. A diagnostic
/// where `options` demand another mini-batch than the model's own, several micro-batches, or replicas. [P15]
Result<PlanOptions> with_fixed_batch(const ir::Graph& graph, PlanOptions options);

/// Counts the samples of a plan that was made with such options as its model does.
void count_fixed_samples(ir::Plan& plan);

}  // namespace rannc::partition
