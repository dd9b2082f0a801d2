/// Builds square roots.
#pragma once

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// The square root, with gradient 0 instead of infinity at 0.
ValueId root_without_pole(TaskWriter& writer, ValueId x);

}  // namespace rannc::frontend
