/// Makes batch normalizations by fixed statistics train.
#pragma once

#include <functional>
#include <optional>

#include "passes/pass.h"

namespace rannc::passes {

/// Which batch normalizations to change, and how.
struct TrainedBatchNorms {
  std::function<bool(TaskId)> wanted;  ///< of tasks that normalise by fixed statistics
  std::optional<double> momentum;      ///< of the new statistics; nullopt: as in the task
};

/// is_batch_norm: any batch normalization. has_fixed_statistics: one that normalises by fixed statistics.
bool is_batch_norm(const ir::Graph& graph, TaskId task);
bool has_fixed_statistics(const ir::Graph& graph, TaskId task);

/// Makes the wanted tasks normalise by their batch, with their statistics as buffers that are updated. Adds a remark
/// for each. Returns whether there were any. It is an error if statistics are not stored tensors or have other readers.
/// Linear.
Result<bool> train_batch_norms(ir::Graph& graph, const TrainedBatchNorms& request, PassContext& context);

}  // namespace rannc::passes
