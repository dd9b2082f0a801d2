/// What a task made for a number of samples becomes for operands that have any number of them.
#pragma once

#include <span>
#include <vector>

#include "ir/op/op.h"
#include "passes/batch/internal/sample_places.h"

namespace rannc::passes {

/// A task as it would be built: the first so many of its operands, in front of sizes that are attributes now.
struct TaskForm {
  const ir::OpInfo* op;
  ir::Attributes attributes;
  size_t operands;
};

/// The forms to try, in this order: the task as it is, then with sizes that hold the samples. `operands` are what is
/// read now, `wanted` is where its first result shall have samples, null where that follows from the operands.
std::vector<TaskForm> task_forms(const ir::Graph& from, TaskId task, std::span<const ir::ValueType* const> operands,
                                 const ir::BatchLayout* wanted, const Samples& samples);

/// The types of its results; an error where the operator does not take the operands, or gives for the baked number of
/// samples another type than the task does. Bodies are fitted into `form`.
Result<std::vector<ir::ValueType>> types_of(TaskForm& form, std::span<const ir::ValueType* const> operands,
                                            const ir::Graph& from, TaskId task, const Samples& samples);

}  // namespace rannc::passes
