/// Temporary memory of an operator's calls.
#pragma once

#include "ir/base/device_type.h"
#include "ir/graph/views.h"

namespace rannc::ir {

/// Input to a memory rule: one task.
class MemoryCall {
 public:
  /// `device`: that the task runs on.
  MemoryCall(const Graph& graph, TaskId task, const Views& views, DeviceType device)
      : graph_(graph), task_(task), views_(views), device_(device) {}

  const Graph& graph() const { return graph_; }
  const Attributes& attributes() const { return graph_.attributes(task_); }
  bool has(size_t operand) const;
  /// Bytes of a present operand or result.
  Dim operand_bytes(size_t operand) const;
  Dim result_bytes(size_t result = 0) const;
  const ValueType& operand(size_t operand) const { return graph_.type(graph_.inputs(task_)[operand]); }
  const ValueType& result(size_t result = 0) const { return graph_.type(graph_.outputs(task_)[result]); }
  size_t results() const { return graph_.outputs(task_).size(); }
  TaskId task() const { return task_; }
  DeviceType device() const { return device_; }
  /// Whether an operand is contiguous with its axes in this order, outermost first.
  bool is_dense(size_t operand, std::span<const int64_t> axes) const;
  /// As `LowerCall::has_rows`.
  bool has_rows(size_t operand) const;
  /// Bytes of the copies that a kernel makes of those operands that are not contiguous.
  Dim copies(std::initializer_list<size_t> operands) const;
  /// The same for operands whose axes, all but the last `apart`, have to merge into one.
  Dim merged_copies(std::initializer_list<size_t> operands, size_t apart) const;

 private:
  ValueId value(size_t operand) const { return graph_.inputs(task_)[operand]; }

  const Graph& graph_;
  TaskId task_;
  const Views& views_;
  const DeviceType device_;
};

}  // namespace rannc::ir
