/// Interface for computing operators on stored bytes. It keeps passes independent of tensor libraries.
#pragma once

#include <span>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::passes {

/// Implemented by code that links a tensor library. Must be deterministic: same operands, same bytes.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Returns the outputs of one execution of `op`, with the types that `op.infer` gives. A null operand is absent.
  /// Returns a diagnostic if the operator cannot be computed here; the caller then leaves the task in place.
  virtual Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op,
                                                         std::span<const ir::StoredTensor* const> operands,
                                                         const ir::Attributes& attributes) const = 0;
};

}  // namespace rannc::passes
