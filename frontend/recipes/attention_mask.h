/// Masks of attention on core operators.
#pragma once

#include "frontend/internal/task_writer.h"

namespace rannc::frontend {

/// The integers from `first` on, i64 [count].
ValueId range(TaskWriter& writer, const ir::Dim& first, const ir::Dim& count);

/// Which keys a query sees under causal attention: bool [queries, keys], key j at or before query i. `past`: keys
/// before the first query.
ValueId causal_mask(TaskWriter& writer, const ir::Dim& queries, const ir::Dim& keys, const ir::Dim& past = 0);

/// Whether both masks let a query see a key; `a` may be invalid.
ValueId both_seen(TaskWriter& writer, ValueId a, ValueId b);

/// Numbers to add to scores of `dtype`: minus infinity where a key is not seen, elsewhere `bias`, or 0 if that is
/// invalid.
ValueId additive_mask(TaskWriter& writer, ValueId seen, ValueId bias, ir::DType dtype);

}  // namespace rannc::frontend
