/// Computes the rebuild hulls of a stage problem's blocks.
#pragma once

#include "partition/blocks/block_partitioner.h"
#include "partition/model/model_facts.h"
#include "partition/model/plan_options.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Whether stages of a plan may recompute a part of their forward pass (`choose_kept.h`) without a demand for it. Only
/// then does the search benefit from rebuild hulls.
bool may_recompute_in_part(const PlanOptions& options);

/// Returns the rebuild hull of every block for `samples` at once, by `options.recompute_choices`. Each block is cut
/// into the functions of a stage of its own. Equal blocks share a hull. What a block sends is kept in every choice,
/// because the next block of its stage reads it. Empty if its stages have no functions.
///
/// Limit: times are those of the cluster's first device.
std::vector<std::vector<RebuildPoint>> block_hulls(const ModelFacts& model, const BlockPartition& blocks,
                                                   uint64_t samples, const PlanOptions& options);

}  // namespace rannc::partition
