/// Computes one operator on stored bytes, by running its lowered statement.
#pragma once

#include <span>
#include <vector>

#include "ir/op.h"

namespace rannc::codegen {

/// An operand or result: a type whose shape is made of integers, and its bytes (row-major, little-endian).
struct StoredTensor {
  ir::ValueType type;
  ir::TensorData data;
};

/// The outputs of one execution, types as `op.infer` gives them; a null operand is absent. Deterministic: same
/// operands, same bytes. Errors: an operator without type rule or lowering, or whose number of outputs varies; random
/// operators and those that keep statistics; operands without bytes; what LibTorch says.
Result<std::vector<StoredTensor>> evaluate(const ir::OpInfo& op, std::span<const StoredTensor* const> operands,
                                           const ir::Attributes& attributes);

}  // namespace rannc::codegen
