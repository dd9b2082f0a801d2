/// Interval rules of the operators' entries, one function per operator, named after it. Private to ir/op.
///
/// `ir/op/interval.h` has the contract. Rules return nothing if a result mixes elements with different factors.
#pragma once

#include "ir/op/interval.h"

namespace rannc::ir::ops::interval {

using Found = std::optional<IndexRange>;

Found range(const IntervalCall& call);     ///< of numbers and sizes; with samples, equally many per sample
Found max_pool(const IntervalCall& call);  ///< of positions
Found argmax(const IntervalCall& call);
Found topk(const IntervalCall& call);  ///< of places
Found one_hot(const IntervalCall& call);
Found identity(const IntervalCall& call);
Found cast(const IntervalCall& call);
Found expand(const IntervalCall& call);
Found view(const IntervalCall& call);  ///< reshape, squeeze and unsqueeze
Found permute(const IntervalCall& call);
Found concat(const IntervalCall& call);
Found add(const IntervalCall& call);
Found sub(const IntervalCall& call);
Found mul(const IntervalCall& call);  ///< by one number or size, or of numbers that are not negative
Found div(const IntervalCall& call);  ///< of integers, by one number or size that divides the factor
Found mod(const IntervalCall& call);  ///< likewise
Found maximum(const IntervalCall& call);
Found minimum(const IntervalCall& call);
Found clamp(const IntervalCall& call);
Found where(const IntervalCall& call);

}  // namespace rannc::ir::ops::interval
