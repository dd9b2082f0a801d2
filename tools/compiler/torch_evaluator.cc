// Hands operands of a pass to codegen.
#include "tools/compiler/torch_evaluator.h"

#include "runtime/aten/evaluate.h"

namespace rannc::tools {

Result<std::vector<ir::StoredTensor>> TorchEvaluator::evaluate(const ir::OpInfo& op,
                                                               std::span<const ir::StoredTensor* const> operands,
                                                               const ir::Attributes& attributes) const {
  return runtime::evaluate(op, operands, attributes);
}

}  // namespace rannc::tools
