/// What normalisations share with their gradients. Private to ir/ops.
#pragma once

#include "ir/ops/rules.h"

namespace rannc::ir::ops {

/// The first of the axes that are normalised; an error where the operand has its samples on one of them.
Result<int64_t> first_normalised(const OpCall& call, size_t operand);
/// Sizes of the axes from attribute `axis` on.
Shape normalised_sizes(const OpAttributes& attributes, const Shape& shape);
/// In which ATen keeps statistics of elements of a type: at least f32 on a GPU.
DType statistics_dtype(DType dtype);
/// The type of a number for each row of x, the axes from `axis` on being of one element.
ValueType statistics_of_rows(const ValueType& x, int64_t axis);

}  // namespace rannc::ir::ops
