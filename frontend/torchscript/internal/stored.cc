#include "frontend/torchscript/internal/stored.h"

#include <fmt/format.h>

#include <numeric>

#include "ir/constant.h"

namespace rannc::frontend::torchscript {

TensorRef add_stored(ir::Graph& graph, ImportNotes& notes, const StoredTensor& stored, ir::ValueType type,
                     ir::TensorData data) {
  type.contents = ir::constant_contents(type, data);
  const bool is_float = ir::is_float(type.dtype);
  const ValueId value = graph.add_value(ir::ValueKind::kConstant, stored.name, std::move(type), std::move(data));
  const std::string name(graph.value(value).name);
  if (stored.role == Role::kLiteral) {
    notes.stored.literals.insert(name);
  } else if (stored.role != Role::kUnknown && is_float) {
    const bool is_trained = stored.role == Role::kParameter;
    notes.stored.listed.emplace(name, is_trained ? ir::ValueKind::kParameter : ir::ValueKind::kConstant);
  }
  // A tensor of several names is one value, which `state_dict` has several times.
  if (!stored.others.empty()) {
    std::vector<int64_t> sizes;
    for (const ir::Dim& size : *graph.type(value).shape) sizes.push_back(size.constant());
    std::vector<int64_t> axes(sizes.size());
    std::iota(axes.begin(), axes.end(), 0);
    const ir::StatePart whole{value, std::vector<int64_t>(sizes.size()), sizes, axes};
    graph.add_state({stored.name, sizes, {whole}});
    for (const std::string& other : stored.others) graph.add_state({other, sizes, {whole}});
  }
  auto made = std::make_shared<Tensor>(value);
  if (stored.role != Role::kLiteral) made->set_state(name);
  return made;
}

Result<ir::ValueType> stored_type(const at::Tensor& tensor, const std::string& name, const Location& where) {
  if (tensor.layout() != at::kStrided || tensor.is_quantized())
    return error(where, fmt::format("tensor '{}' is sparse or quantized, which is not supported", name));
  const auto dtype = ir::dtype_of_torch(static_cast<int>(tensor.scalar_type()));
  if (!dtype) {
    return error(where, fmt::format("tensor '{}' has elements of type {}, which is not supported", name,
                                    at::toString(tensor.scalar_type())));
  }
  ir::ValueType type;
  type.dtype = *dtype;
  type.shape.emplace(tensor.sizes().begin(), tensor.sizes().end());
  return type;
}

}  // namespace rannc::frontend::torchscript
