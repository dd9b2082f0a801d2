/// Whether a task computes each sample from that sample alone, where its type rule cannot tell.
#pragma once

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::passes {

/// For a task that gathers along the axis where its data has its samples (a padding mask fetched by
/// `gather_nd(mask, [range(batch), positions])`, or flattened and fetched at sample * length + position): success where
/// the indices are shown to pick each sample's own elements, by their interval (`ir/op/interval.h`). An error at the
/// task otherwise: run on a part of the mini-batch it would pick other samples. Success for every other task.
Result<void> check_sample_index(const ir::Graph& graph, TaskId task);

/// An error where a task mixes the samples of a micro-batch: of a part of the mini-batch its result is another one. So
/// is a sum over samples (`ir::Mix::kPartial`) that the graph gives out.
Result<void> check_no_mix(const ir::Graph& graph, TaskId task);

/// An error where a sample's part of a float value is made of the number of samples, or of the sample's own number: of
/// a micro-batch they are others than of the mini-batch. Index arithmetic may be made of them, which check_sample_index
/// looks through. Linear; after types are inferred.
Result<void> check_no_count(const ir::Graph& graph);

}  // namespace rannc::passes
