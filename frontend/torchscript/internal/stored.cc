#include "frontend/torchscript/internal/stored.h"

#include <ATen/ops/view_as_real.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/graph/constant.h"

namespace rannc::frontend::torchscript {

TensorRef add_stored(ir::Graph& graph, ImportNotes& notes, const StoredTensor& stored, ir::ValueType type,
                     ir::TensorData data, const std::set<std::string>& written) {
  const bool is_float = ir::is_float(type.dtype);
  const ValueId value = graph.add_value(ir::ValueKind::kConstant, stored.name, type, std::move(data));
  const std::string name(graph.value(value).name);
  // Each normalization writes its counter, and none but that without a momentum reads it.
  if (stored.name.ends_with("num_batches_tracked") || written.contains(name)) {
    graph.set_kind(value, ir::ValueKind::kBuffer);
  } else {
    type.contents = ir::constant_contents(type, graph.value(value).data);
    graph.set_type(value, std::move(type));
  }
  if (stored.role == Role::kLiteral) {
    notes.stored.literals.insert(name);
  } else if (stored.role != Role::kUnknown && is_float) {
    const bool is_trained = stored.role == Role::kParameter;
    notes.stored.listed.emplace(name, is_trained ? ir::ValueKind::kParameter : ir::ValueKind::kConstant);
  }
  // A tensor with several names is one value, which `state_dict` lists several times.
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

void constants_again(ir::Graph& graph) {
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) == ir::ValueKind::kBuffer) graph.set_kind(value, ir::ValueKind::kConstant);
  }
}

void SharedMemory::add(const std::string& storage, int64_t offset, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       const std::string& name, bool is_trained) {
  constexpr int64_t kMost = int64_t{1} << 30;  // of a tensor that is there; its record says whether it is
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] <= 0 || sizes[i] > kMost || strides[i] > kMost) return;
    last += (sizes[i] - 1) * std::max<int64_t>(strides[i], 0);
  }
  extents_[storage].push_back({offset, last, name, is_trained});
}

Result<void> SharedMemory::check(const std::string& file) {
  for (auto& [storage, extents] : extents_) {
    std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.first < b.first; });
    // Of those before, the one that reaches furthest, among all and among the trained.
    const Extent *any = nullptr, *trained = nullptr;
    for (const Extent& each : extents) {
      const Extent* const other = each.is_trained ? any : trained;
      if (other != nullptr && other->last >= each.first) {
        return error({file, 0, 0, each.name},
                     fmt::format("'{}' and '{}' share part of their memory, and training would change only one of "
                                 "them: store a copy in the module (`.clone()`)",
                                 other->name, each.name));
      }
      if (any == nullptr || each.last > any->last) any = &each;
      if (each.is_trained && (trained == nullptr || each.last > trained->last)) trained = &each;
    }
  }
  return {};
}

Result<at::Tensor> real_numbers(const at::Tensor& tensor, const std::string& name, bool is_trained,
                                const Location& where) {
  if (!tensor.is_complex()) return tensor;
  if (is_trained) {
    return error(where, fmt::format("parameter '{}' is complex, which is not supported: store torch.view_as_real of it "
                                    "and read it by torch.view_as_complex",
                                    name));
  }
  return at::view_as_real(tensor.resolve_conj());
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
