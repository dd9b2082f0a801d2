/// Computes operators on stored bytes for passes, so that these need no library of tensors.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::passes {

/// Implemented where a tensor library is at hand. Must be deterministic: same operands, same bytes.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// The outputs of one execution of `op`, types as `op.infer` gives them. A null operand is absent. A diagnostic where
  /// the operator cannot be computed here; the caller then leaves the task in place.
  virtual Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op,
                                                         std::span<const ir::StoredTensor* const> operands,
                                                         const ir::Attributes& attributes) const = 0;
};

}  // namespace rannc::passes
