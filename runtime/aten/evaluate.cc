#include "runtime/aten/evaluate.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "runtime/aten/aten_call.h"
#include "runtime/aten/stored_tensor.h"

namespace rannc::runtime {
namespace {

/// Evaluates the operator. Types of operands and results have no symbols.
Result<std::vector<ir::StoredTensor>> computed(const ir::OpInfo& op, std::span<const ir::StoredTensor* const> operands,
                                               const ir::Attributes& attributes) {
  std::vector<const ir::ValueType*> input_types, output_types;
  for (const ir::StoredTensor* operand : operands) input_types.push_back(operand != nullptr ? &operand->type : nullptr);
  RANNC_ASSIGN(std::vector<ir::ValueType> types, ir::types_of({op, input_types, attributes, {}, op.min_results()}));
  for (const ir::ValueType& type : types) output_types.push_back(&type);
  RANNC_ASSIGN(const ir::aten::Lowering lowering, ir::lowering({op, input_types, output_types, attributes}));
  std::vector<std::optional<at::Tensor>> tensors;
  for (const ir::StoredTensor* operand : operands) {
    tensors.emplace_back();
    if (operand == nullptr) continue;
    RANNC_ASSIGN(tensors.back(), to_tensor(*operand));
  }
  const ir::Bindings no_symbols;
  RANNC_ASSIGN(const std::vector<at::Tensor> made, run_lowering(lowering, {.operands = tensors, .sizes = no_symbols}));
  std::vector<ir::StoredTensor> results;
  for (size_t i = 0; i < types.size(); ++i) {
    RANNC_ASSIGN(ir::StoredTensor result, to_stored(made[i], std::move(types[i])));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace

Result<std::vector<ir::StoredTensor>> evaluate(const ir::OpInfo& op, std::span<const ir::StoredTensor* const> operands,
                                               const ir::Attributes& attributes) {
  if (op.infer == nullptr || !op.can_be_lowered() || op.min_results() == 0 || op.depends_on_training(attributes)) {
    return error("operator `" + op.name + "` cannot be evaluated at compile time");
  }
  try {
    const c10::NoGradGuard no_grad;
    return computed(op, operands, attributes);
  } catch (const c10::Error& failure) {
    return error("operator `" + op.name + "`: " + failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return error("operator `" + op.name + "`: " + failure.what());
  }
}

}  // namespace rannc::runtime
