/// Helpers of group_norm and its gradient. Private to ir/op.
#pragma once

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// Attribute `groups`, which must divide the channels C of operand `index`. The operand is [N, C, …] with samples, if
/// any, in N.
Result<int64_t> checked_groups(const OpCall& call, size_t index);
/// Type of a value with one number per sample and group.
ValueType statistics_of_groups(const ValueType& x, int64_t groups);
/// ATen's size arguments for [N, C, …]: N, C, the product of the rest, `groups`.
std::vector<aten::Argument> group_sizes(const LowerCall& call, size_t index);

}  // namespace rannc::ir::ops
