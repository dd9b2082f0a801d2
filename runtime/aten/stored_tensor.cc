#include "runtime/aten/stored_tensor.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>

#include "runtime/aten/torch_types.h"

namespace rannc::runtime {

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
    return error(fmt::format("an operand has {} bytes; its type requires {}", bytes.size(), tensor.nbytes()));
  }
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

Result<ir::StoredTensor> to_stored(const at::Tensor& tensor, ir::ValueType type) {
  const at::Tensor dense = tensor.contiguous();
  ir::Shape shape;
  for (int64_t extent : dense.sizes()) shape.emplace_back(extent);
  if (dense.scalar_type() != scalar_type(type.dtype)) {
    return error(fmt::format("computed {}, but the type rule expects {}", at::toString(dense.scalar_type()),
                             ir::str(type.dtype)));
  }
  type.shape = std::move(shape);
  std::vector<std::byte> bytes(dense.nbytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), dense.data_ptr(), bytes.size());
  return ir::StoredTensor{std::move(type), ir::TensorData::in_memory(std::move(bytes))};
}

}  // namespace rannc::runtime
