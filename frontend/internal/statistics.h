/// Translates batch normalizations whose mean or variance is not a stored tensor.
#pragma once

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// Whether the model computes a value, other than by rearranging, slicing or casting a stored or constant one.
bool is_computed(const TaskWriter& writer, ValueId value);
/// Whether a value is not derived from a stored tensor in that way: it is computed or repeats one number.
bool is_made(const TaskWriter& writer, ValueId value);

/// Emits (x - mean) / sqrt(variance + epsilon) * scale + bias along axis 1. Gradients flow through all operands,
/// whereas LibTorch has none for running statistics. The operands are those of `core.batch_norm`.
ValueId normalised(TaskWriter& writer, std::span<const ValueId> operands, double epsilon);

}  // namespace rannc::frontend
