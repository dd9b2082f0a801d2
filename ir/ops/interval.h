/// The interval rules of the operators' entries, one function per operator and of its name. Private to ir/ops.
///
/// Contract of all: `ir/op/interval.h`. Operators whose result mixes elements of different factors have nothing.
#pragma once

#include "ir/op/interval.h"

namespace rannc::ir::ops::interval {

using Found = std::optional<IndexRange>;

Found range(const IntervalCall& call);     ///< of numbers and sizes; as many for each sample where it has samples
Found max_pool(const IntervalCall& call);  ///< of places
Found argmax(const IntervalCall& call);
Found identity(const IntervalCall& call);
Found cast(const IntervalCall& call);
Found expand(const IntervalCall& call);
Found view(const IntervalCall& call);  ///< reshape, squeeze and unsqueeze
Found permute(const IntervalCall& call);
Found concat(const IntervalCall& call);
Found add(const IntervalCall& call);
Found sub(const IntervalCall& call);
Found mul(const IntervalCall& call);  ///< by one number or size
Found div(const IntervalCall& call);  ///< of integers by one number or size that divides the factor
Found mod(const IntervalCall& call);  ///< the same
Found maximum(const IntervalCall& call);
Found minimum(const IntervalCall& call);
Found clamp(const IntervalCall& call);
Found where(const IntervalCall& call);

}  // namespace rannc::ir::ops::interval
