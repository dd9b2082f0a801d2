/// Groups of tasks that one loop computes.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "ir/op/loop.h"
#include "ir/op/merged_calls.h"

namespace rannc::ir {

/// A group, in the order of the function. It runs at the place of `place`, one of its tasks.
struct LoopGroup {
  std::vector<TaskId> tasks;
  TaskId place;
};

/// Follows reshapes that keep columns, among `calls`, to the value that they reshape.
class LoopAliases {
 public:
  LoopAliases(const Graph& graph, std::span<const MergedCall> calls);
  ValueId operator()(ValueId value) const;

 private:
  std::vector<ValueId> of_;  ///< by value
};

/// Tasks that are loops.
using LoopTasks = std::map<TaskId, LoopTask>;

/// Partitions the tasks of `loops` into groups of equal rows and columns. A task joins the group that makes or
/// reads one of its operands if every task that the group needs stays before it and every task that needs the group
/// stays after it. Greedy and linear. `calls` is the partition of all tasks of the function, in order; the tasks of
/// `loops` are alone in their calls.
std::vector<LoopGroup> loop_groups(const Graph& graph, std::span<const MergedCall> calls, const LoopTasks& loops);

}  // namespace rannc::ir
