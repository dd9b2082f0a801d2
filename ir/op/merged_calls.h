/// Merges calls of one gradient kernel for several operands.
#pragma once

#include <span>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"
#include "ir/op/aten.h"

namespace rannc::ir {

/// Tasks that run together, at the place of the first one.
struct MergedCall {
  std::vector<TaskId> tasks;  ///< in the order of the function
  /// Of two tasks or more: their calls. Operands and results are those of the tasks, one task after the other.
  aten::Lowering lowering;
};

/// Partitions the tasks of a function, which are given in order.
///
/// Each gradient task calls its kernel for one wanted result. Tasks that call the same kernel (a convolution's, a
/// normalization's) with the same operands, for different results, are merged into one call. The sum of the result's
/// gradient that is a bias gradient becomes the kernel's third result. Numbers stay those of the kernel. A task that
/// reads results of tasks after the first one is not merged. `apart`: ascending, tasks that are not merged. `device`:
/// that the calls run on; it does not change which tasks are merged. Both flat programs and predictions of memory
/// follow this partition.
std::vector<MergedCall> merged_calls(const Graph& graph, std::span<const TaskId> tasks,
                                     std::span<const TaskId> apart = {}, DeviceType device = DeviceType::kCpu);

}  // namespace rannc::ir
