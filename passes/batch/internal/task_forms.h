/// Adapts a task of static batch size to operands of symbolic batch size.
#pragma once

#include <span>
#include <vector>

#include "ir/op/op.h"
#include "passes/batch/internal/sample_places.h"

namespace rannc::passes {

/// A task as it would be built. It reads the first `operands` of its operands; the sizes after them have become
/// attributes.
struct TaskForm {
  const ir::OpInfo* op;
  ir::Attributes attributes;
  size_t operands;
};

/// Returns the forms to try, in this order: the task as it is, then with sizes that contain the samples. `operands` are
/// the types it reads now. `wanted` is the batch layout of its first result; null if it follows from the operands.
std::vector<TaskForm> task_forms(const ir::Graph& from, TaskId task, std::span<const ir::ValueType* const> operands,
                                 const ir::BatchLayout* wanted, const Samples& samples);

/// Returns the types of its results. It is an error if the operator rejects the operands, or if the types at the static
/// batch size differ from those of the task. Adapts bodies in `form`.
Result<std::vector<ir::ValueType>> types_of(TaskForm& form, std::span<const ir::ValueType* const> operands,
                                            const ir::Graph& from, TaskId task, const Samples& samples);

}  // namespace rannc::passes
