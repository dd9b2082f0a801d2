/// Makes batch normalisations by fixed statistics train.
#pragma once

#include <functional>
#include <optional>

#include "passes/pass.h"

namespace rannc::passes {

/// Which, and how.
struct TrainedBatchNorms {
  std::function<bool(TaskId)> wanted;  ///< of tasks that normalise by fixed statistics
  std::optional<double> momentum;      ///< of the new statistics; nothing: as the task has it
};

/// Whether a task is a batch normalisation; one that normalises by fixed statistics.
bool is_batch_norm(const ir::Graph& graph, TaskId task);
bool has_fixed_statistics(const ir::Graph& graph, TaskId task);

/// The wanted ones train, and their statistics are buffers that follow. A remark for each. Returns whether there were
/// any; an error where statistics are no stored tensor, or are read by others. Linear.
Result<bool> train_batch_norms(ir::Graph& graph, const TrainedBatchNorms& asked, PassContext& context);

}  // namespace rannc::passes
