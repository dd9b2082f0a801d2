/// Groups of gradient tasks that one call of a kernel computes.
#pragma once

#include <span>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/base/diagnostic.h"
#include "ir/gradient/joint.h"
#include "ir/op/aten.h"

namespace rannc::ir {

/// Tasks that run together, at the place of the first one.
struct MergedCall {
  std::vector<TaskId> tasks;  ///< in the order of the function
};

/// Partitions the tasks of a function, which are given in order. `origins`: those of the joint graph, by task.
///
/// A gradient task has one result, so that it has a phase of its own. Some kernels (of a convolution, of
/// normalizations) compute several: the gradients of one origin whose operators belong to the same kernel are merged
/// into one call, if they read the same operands. The sum of the result's gradient that is the gradient of the bias is
/// merged with that of the weight or scale. Numbers stay those of the kernel. A task that reads results of tasks after
/// the first one is not merged. `apart`: ascending, tasks that are not merged. Flat programs and predictions of memory
/// follow this partition.
std::vector<MergedCall> merged_calls(const Graph& graph, std::span<const Joint::Origin> origins,
                                     std::span<const TaskId> tasks, std::span<const TaskId> apart = {});

/// Lowers the tasks of a call, of which there are two or more, to one call of their kernel. Operands and results are
/// those of the tasks, one task after the other.
Result<aten::Lowering> lowering(const Graph& graph, const MergedCall& call, DeviceType device);

}  // namespace rannc::ir
