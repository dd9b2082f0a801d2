/// Constants computed by a module of TorchScript that is compiled for each: what the dispatcher is measured against.
#pragma once

#include "passes/evaluator.h"

namespace rannc::test {

/// From the text of the calls that `runtime::evaluate` makes.
class CompiledEvaluator final : public passes::Evaluator {
 public:
  Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op,
                                                 std::span<const ir::StoredTensor* const> operands,
                                                 const ir::Attributes& attributes) const override;
};

}  // namespace rannc::test
