/// Evaluates constants with LibTorch for fold-constants.
#pragma once

#include "passes/evaluator.h"

namespace rannc::tools {

/// Runs operators with `runtime::evaluate`.
class TorchEvaluator final : public passes::Evaluator {
 public:
  Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op,
                                                 std::span<const ir::StoredTensor* const> operands,
                                                 const ir::Attributes& attributes) const override;
};

}  // namespace rannc::tools
