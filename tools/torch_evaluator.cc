// Hands operands of a pass to codegen, and results back.
#include "tools/torch_evaluator.h"

#include "codegen/evaluate.h"

namespace rannc::tools {

Result<std::vector<passes::Tensor>> TorchEvaluator::evaluate(const ir::OpInfo& op,
                                                             std::span<const passes::Tensor* const> operands,
                                                             const ir::Attributes& attributes) const {
  std::vector<codegen::StoredTensor> stored(operands.size());
  std::vector<const codegen::StoredTensor*> pointers(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == nullptr) continue;
    stored[i] = {operands[i]->type, operands[i]->data};
    pointers[i] = &stored[i];
  }
  RANNC_ASSIGN(std::vector<codegen::StoredTensor> results, codegen::evaluate(op, pointers, attributes));
  std::vector<passes::Tensor> tensors;
  for (codegen::StoredTensor& result : results) tensors.push_back({std::move(result.type), std::move(result.data)});
  return tensors;
}

}  // namespace rannc::tools
