/// Checks sample independence where type rules cannot prove it.
#pragma once

#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::passes {

/// Checks a task that gathers along the batch axis of its data, such as a padding mask read by `gather_nd(mask,
/// [range(batch), positions])`, or flattened and read at sample * length + position. Succeeds if the interval of the
/// indices (`ir/op/interval.h`) proves that they select each sample's own elements. Otherwise returns an error at the
/// task: on a part of the mini-batch it would select other samples. Succeeds for every other task.
Result<void> check_sample_index(const ir::Graph& graph, TaskId task);

/// Returns an error if a task mixes the samples of a micro-batch, because its result would differ for a part of the
/// mini-batch. An output of the graph that is a sum over samples (`ir::Mix::kPartial`) is an error too.
Result<void> check_no_mix(const ir::Graph& graph, TaskId task);

/// Returns an error if a sample's part of a float value depends on the number of samples or on the sample's own index,
/// because both differ between a micro-batch and the mini-batch. Index arithmetic may depend on them;
/// check_sample_index handles it. Linear; requires inferred types.
Result<void> check_no_count(const ir::Graph& graph);

/// Returns the outputs that micro-batches would compute wrongly because they depend on the number of samples or on a
/// sample's own index. Float values with samples are excepted: check_no_count refuses them.
std::vector<ValueId> counted_outputs(const ir::Graph& graph);

}  // namespace rannc::passes
