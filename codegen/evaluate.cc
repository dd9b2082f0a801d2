#include "codegen/evaluate.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cstring>

#include "codegen/aten_call.h"
#include "codegen/torch_types.h"

namespace rannc::codegen {
namespace {

Result<at::Tensor> to_tensor(const ir::StoredTensor& stored) {
  std::vector<int64_t> sizes;
  if (!stored.type.shape) return error("an operand has no known shape");
  for (const ir::Dim& dim : *stored.type.shape) {
    if (!dim.is_constant()) return error("an operand's shape depends on `" + dim.str() + "`");
    sizes.push_back(dim.constant());
  }
  RANNC_ASSIGN(const std::vector<std::byte> bytes, stored.data.read());
  at::Tensor tensor = at::empty(sizes, scalar_type(stored.type.dtype));
  if (tensor.nbytes() != bytes.size()) {
    return error(fmt::format("an operand has {} bytes; its type asks for {}", bytes.size(), tensor.nbytes()));
  }
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

Result<ir::StoredTensor> to_stored(const at::Tensor& tensor, ir::ValueType type) {
  const at::Tensor dense = tensor.contiguous();
  ir::Shape shape;
  for (int64_t extent : dense.sizes()) shape.emplace_back(extent);
  if (dense.scalar_type() != scalar_type(type.dtype)) {
    return error(
        fmt::format("computed {}, but the type rule says {}", at::toString(dense.scalar_type()), ir::str(type.dtype)));
  }
  type.shape = std::move(shape);
  std::vector<std::byte> bytes(dense.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), dense.data_ptr(), bytes.size());
  return ir::StoredTensor{std::move(type), ir::TensorData::in_memory(std::move(bytes))};
}

/// Operands and results without symbols: everything is known ahead of a run.
Result<std::vector<ir::StoredTensor>> computed(const ir::OpInfo& op, std::span<const ir::StoredTensor* const> operands,
                                               const ir::Attributes& attributes) {
  std::vector<const ir::ValueType*> input_types, output_types;
  for (const ir::StoredTensor* operand : operands) input_types.push_back(operand != nullptr ? &operand->type : nullptr);
  RANNC_ASSIGN(std::vector<ir::ValueType> types,
               op.infer({op, input_types, attributes, {}, static_cast<uint32_t>(op.results.size())}));
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
  if (op.infer == nullptr || !op.can_be_lowered() || op.results.back().presence != ir::Presence::kRequired ||
      op.effect != ir::Effect::kPure) {
    return error("operator `" + op.name + "` cannot be computed ahead of a run");
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

}  // namespace rannc::codegen
