#include "passes/internal/compute.h"

#include <algorithm>

#include "ir/op/fold.h"

namespace rannc::passes {

using namespace ir;  // NOLINT: reads as its neighbours

std::vector<StoredTensor> compute(const OpInfo& op, std::span<const StoredTensor* const> operands,
                                  const Attributes& attributes, std::span<const ValueType> types,
                                  const Evaluator* evaluator) {
  const auto whole = [](const StoredTensor* operand) { return operand == nullptr || !is_float(operand->type.dtype); };
  const auto whole_result = [](const ValueType& type) { return !is_float(type.dtype); };
  if (std::all_of(operands.begin(), operands.end(), whole) && std::all_of(types.begin(), types.end(), whole_result)) {
    if (auto found = fold_integers(op, operands, attributes, types)) return *std::move(found);
  }
  if (evaluator == nullptr) return {};
  auto found = evaluator->evaluate(op, operands, attributes);
  return found && found->size() == types.size() ? *std::move(found) : std::vector<StoredTensor>{};
}

}  // namespace rannc::passes
