/// What group_norm shares with its gradient. Private to ir/ops.
#pragma once

#include "ir/ops/rules.h"

namespace rannc::ir::ops {

/// Groups of channels of operand `index`, [N, C, …] with samples, if any, in N: attribute `groups`, which divides C.
Result<int64_t> checked_groups(const OpCall& call, size_t index);
/// The type of a number for each sample and group.
ValueType statistics_of_groups(const ValueType& x, int64_t groups);
/// What ATen is told of [N, C, …]: N, C, the product of the rest, `groups`.
std::vector<aten::Argument> group_sizes(const LowerCall& call, size_t index);
/// An operand as ATen's kernels of groups want each: they read its memory from one end to the other. None where it is
/// absent.
aten::Argument in_one_piece(const LowerCall& call, Calls& calls, uint32_t operand);

}  // namespace rannc::ir::ops
