/// Batch normalisations whose mean or variance is no stored tensor.
#pragma once

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// Whether arithmetic of the model makes a value. What tasks only rearrange, cut or cast is what it was before.
bool is_computed(const TaskWriter& writer, ValueId value);
/// Whether nothing stored lies behind it either: it is computed, or repeats one number.
bool is_made(const TaskWriter& writer, ValueId value);

/// (x - mean) / sqrt(variance + epsilon) * scale + bias along axis 1, through all of which gradients flow: by running
/// statistics LibTorch has none. The operands are those of `core.batch_norm`.
ValueId normalised(TaskWriter& writer, std::span<const ValueId> operands, double epsilon);

}  // namespace rannc::frontend
