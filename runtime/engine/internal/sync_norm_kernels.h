/// Batch normalization across replicas as tasks of stage functions.
#pragma once

#include "ir/graph/graph.h"
#include "runtime/engine/internal/sync_batch_norm.h"
#include "runtime/flat/flat_program.h"

namespace rannc::runtime {

/// Kernel of a synchronised `core.batch_norm` of a joint graph, number `index` of its stage. Its auxiliary results are
/// the mean and inverse deviation over all replicas. Graph and `norms` must outlive it.
TaskKernel sync_norm_kernel(SyncBatchNorm& norms, const ir::Graph& graph, TaskId task, size_t index);

/// Kernel of the gradient of the normalized operand.
TaskKernel sync_norm_gradient_kernel(SyncBatchNorm& norms, const ir::Graph& graph, TaskId task, size_t index);

}  // namespace rannc::runtime
