/// Builds attention masks from core operators.
#pragma once

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// Returns the integers first, first + 1 …, i64 [count].
ValueId range(TaskWriter& writer, const ir::Dim& first, const ir::Dim& count);

/// Returns the mask of causal attention, bool [queries, keys]: whether key j is at or before query i. `past` is the
/// number of keys before the first query.
ValueId causal_mask(TaskWriter& writer, const ir::Dim& queries, const ir::Dim& keys, const ir::Dim& past = 0);

/// Returns the conjunction of two masks. An invalid `a` masks nothing.
ValueId both_seen(TaskWriter& writer, ValueId a, ValueId b);

/// Returns the mask to add to scores of type `dtype`: minus infinity where `seen` is false, elsewhere `bias`, or 0 if
/// `bias` is invalid.
ValueId additive_mask(TaskWriter& writer, ValueId seen, ValueId bias, ir::DType dtype);

}  // namespace rannc::frontend
