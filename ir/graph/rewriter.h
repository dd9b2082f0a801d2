/// Builds a changed copy of a graph, task by task.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// Copies values and tasks of `from` into a new graph under a value map. Values that no task produces are copied at
/// construction, in id order, with names, types and data. A pass walks the old tasks in order. For each task it either
/// calls `copy(task)` or maps the old outputs to values that it built itself.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);
  /// Copies only those leaf values for which `keep` holds.
  Rewriter(const Graph& from, const std::vector<bool>& keep);
  Graph& graph() { return to_; }
  /// The new value for an old one, which must be mapped (RANNC_CHECK). Invalid for an invalid id.
  ValueId map(ValueId old) const;
  bool mapped(ValueId old) const;
  void replace(ValueId old, ValueId by);
  /// Copies a task with mapped operands, types and names. Returns the new task.
  TaskId copy(TaskId old);
  /// Copies a task with these operands, which are values of the new graph.
  TaskId copy(TaskId old, std::span<const ValueId> operands);
  /// Copies inputs, outputs, losses, totals, statistics, names, and those state tensors all of whose parts are mapped.
  /// Returns the new graph.
  Graph finish() &&;

 private:
  const Graph& from_;
  Graph to_;
  std::vector<ValueId> map_;
  std::vector<ValueId> operands_;  // of the task being copied
};

/// Removes tasks whose outputs reach no graph output, loss numerator or statistics, and unread parameters, buffers and
/// constants. Unread values that hold part of the state stay; such a parameter becomes a constant, because nothing
/// trains it. Inputs stay. Returns whether anything was changed.
bool remove_dead(Graph& graph);

}  // namespace rannc::ir
