/// Evaluates one operator on stored tensors by running its lowering.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::runtime {

/// Returns the outputs of one execution, with types from `op.infer`. A null operand is absent. Deterministic: equal
/// operands give equal bytes. Errors: an operator without type rule or lowering, with a variable number of outputs, or
/// with different behavior in training and evaluation; operands without bytes; LibTorch errors.
Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op, std::span<const ir::StoredTensor* const> operands,
                                               const ir::Attributes& attributes);

}  // namespace rannc::runtime
