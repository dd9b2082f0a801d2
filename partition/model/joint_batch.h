/// Numbers of micro-batches for models whose replicas normalise together.
#pragma once

#include "partition/model/plan_model.h"

namespace rannc::partition {

/// The options to search with. As they are, but where a model that trains normalises by the samples of all replicas
/// (`synchronised`): then each replica needs a sample of every micro-batch [P18], and of the candidate counts those are
/// left that keep this: of the replicas that `options` demand, or else those that divide the mini-batch evenly, for
/// which planners never choose more replicas than a micro-batch has samples. Where none is left, all are, and
/// rannc-paper looks at none: the finished plan says what is wrong. What such exchanges cost is not priced.
PlanOptions with_joint_batch(const ir::Graph& graph, PlanOptions options);

}  // namespace rannc::partition
