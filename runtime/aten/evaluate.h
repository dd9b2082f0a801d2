/// Computes one operator on stored bytes, by running its lowered statement.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::runtime {

/// The outputs of one execution, types as `op.infer` gives them; a null operand is absent. Deterministic: same
/// operands, same bytes. Errors: an operator without type rule or lowering, or whose number of outputs varies; what
/// trains one way and evaluates another; operands without bytes; what LibTorch says.
Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op, std::span<const ir::StoredTensor* const> operands,
                                               const ir::Attributes& attributes);

}  // namespace rannc::runtime
