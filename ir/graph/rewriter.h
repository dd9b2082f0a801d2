/// Builds a changed copy of a graph, task by task.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Copies values and tasks of `from` into a new graph under a value map. Values that no task makes are copied at
/// construction, in id order, with names, types and data. A pass walks the old tasks in order and for each either calls
/// `copy(task)` or maps the old outputs to values it built itself.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);
  /// Copies only those values no task makes for which `keep` holds.
  Rewriter(const Graph& from, const std::vector<bool>& keep);
  Graph& graph() { return to_; }
  /// The new value that stands for an old one; our bug where nothing does yet. Invalid in, invalid out.
  ValueId map(ValueId old) const;
  bool mapped(ValueId old) const;
  void replace(ValueId old, ValueId by);
  /// Copies a task with mapped operands, types and names; returns the new task.
  TaskId copy(TaskId old);
  /// The same with these operands, which are values of the new graph.
  TaskId copy(TaskId old, std::span<const ValueId> operands);
  /// Carries inputs, outputs, losses, statistics and names over, and tensors of state of which nothing was left out;
  /// hands the new graph out.
  Graph finish() &&;

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> map_;
  std::vector<ValueId> operands_;  // of the task that is copied
};

/// A copy without tasks whose outputs reach no graph output, loss numerator or statistics, and without unread
/// parameters, buffers and constants, but for those that have a part of the state: nothing trains an unread parameter,
/// and it becomes a constant. Inputs stay. Returns whether anything was changed.
bool remove_dead(Graph& graph);

}  // namespace rannc::ir
