/// Helpers of normalizations and their gradients. Private to ir/op.
#pragma once

#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {

/// The first normalized axis. Fails if the samples of the operand are on a normalized axis.
Result<int64_t> first_normalised(const OpCall& call, size_t operand);
/// Sizes of the axes from attribute `axis` on.
Shape normalised_sizes(const OpAttributes& attributes, const Shape& shape);
/// The type in which ATen keeps statistics of elements of `dtype`: at least f32 on a GPU.
DType statistics_dtype(DType dtype);
/// Type of a value with one number per row of x: the axes from `axis` on have size 1.
ValueType statistics_of_rows(const ValueType& x, int64_t axis);

}  // namespace rannc::ir::ops
