/// Restricts the numbers of micro-batches for models that normalise over all replicas.
#pragma once

#include "partition/model/plan_options.h"

namespace rannc::partition {

/// Returns the options to search with. They change only if the model is trained and normalises by the samples of all
/// replicas (`synchronised`). Then each replica needs a sample of every micro-batch [P18], and only these candidate
/// counts remain: counts that give every demanded replica a sample, or, without demanded replicas, counts that divide
/// the mini-batch evenly, since planners never choose more replicas than a micro-batch has samples. If no count
/// remains, all are kept and rannc-paper tries none; the finished plan reports the error. The cost of the exchanges is
/// not priced.
PlanOptions with_joint_batch(const ir::Graph& graph, PlanOptions options);

}  // namespace rannc::partition
