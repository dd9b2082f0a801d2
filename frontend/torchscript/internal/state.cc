#include "frontend/torchscript/internal/state.h"

#include <fmt/format.h>

#include <numeric>

#include "ir/constant.h"

namespace rannc::frontend::torchscript {

namespace {

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

}  // namespace

State::Place State::place_of(const at::Tensor& tensor) {
  return {tensor.storage().data(), tensor.storage_offset(), tensor.sizes().vec(), tensor.strides().vec(),
          static_cast<int>(tensor.scalar_type())};
}

State::State(const Archive& archive, ir::Graph& graph, ImportNotes& notes)
    : archive_(archive), graph_(graph), notes_(notes) {
  const auto name = [&](const std::string& name, const at::Tensor& tensor, bool is_parameter) {
    const bool has_place = tensor.defined() && tensor.layout() == at::kStrided && tensor.numel() > 0;
    if (!has_place) return;
    const auto [known, fresh] = named_.try_emplace(place_of(tensor), Naming{name, false, is_parameter});
    if (!fresh && name != known->second.name) aliases_[known->second.name].push_back(name);
  };
  for (const auto& parameter : archive.module().named_parameters()) name(parameter.name, parameter.value, true);
  for (const auto& buffer : archive.module().named_buffers()) name(buffer.name, buffer.value, false);
}

Object State::root() { return *create(archive_.module()._ivalue(), {}).get<Object>(); }

Item State::create(const at::IValue& value, std::string path) {
  const auto [known, fresh] = handles_.emplace(&value.toObjectRef(), objects_.size());
  if (fresh) objects_.push_back(value);
  return Object{std::move(path), known->second};
}

Result<Item> State::attribute(const Object& object, const std::string& name, const Location& where) {
  const auto key = std::pair(object.handle, name);
  if (const auto known = attributes_.find(key); known != attributes_.end()) {
    // The path is that of the first who asked; a module that has several is reached by this one.
    if (const auto* child = known->second.get<Object>()) return Item(Object{joined(object.path, name), child->handle});
    return known->second;
  }
  const auto& found = objects_[object.handle].toObjectRef();
  const auto slot = found.type()->findAttributeSlot(name);
  if (!slot) return error(where, fmt::format("'{}' has no attribute {}", object.path, name));
  const bool is_parameter = found.type()->is_module() && found.type()->is_parameter(*slot);
  RANNC_ASSIGN(Item made, item(found.getSlot(*slot), {joined(object.path, name), false, is_parameter}, where));
  return attributes_.emplace(key, std::move(made)).first->second;
}

void State::set_attribute(const Object& object, const std::string& name, Item item) {
  attributes_[{object.handle, name}] = std::move(item);
}

Result<Item> State::literal(const at::IValue& value, const std::string& name, const Location& where) {
  return item(value, {name, true, false}, where);
}

Result<Item> State::item(const at::IValue& value, const Naming& how, const Location& where) {
  if (value.isNone()) return Item();
  if (value.isTensor()) return tensor(value.toTensor(), how, where);
  if (value.isBool()) return Item(value.toBool());
  if (value.isInt()) return Item(ir::Dim(value.toInt()));
  if (value.isDouble()) return Item(value.toDouble());
  if (value.isString()) return Item(value.toStringRef());
  if (value.isDevice()) return Item(Device{});
  if (value.isObject()) return create(value, how.name);
  const auto each = [&](const auto& list) -> Result<std::vector<Item>> {
    std::vector<Item> elements;
    for (const at::IValue& element : list) {
      const std::string name = joined(how.name, std::to_string(elements.size()));
      RANNC_ASSIGN(Item made, item(element, {name, how.is_literal, how.is_parameter}, where));
      elements.push_back(std::move(made));
    }
    return elements;
  };
  if (value.isTuple()) {
    RANNC_ASSIGN(auto elements, each(value.toTupleRef().elements().vec()));
    return tuple_of(std::move(elements));
  }
  if (value.isList()) {
    RANNC_ASSIGN(auto elements, each(value.toListRef().vec()));
    return list_of(std::move(elements));
  }
  if (value.isGenericDict()) {
    auto made = std::make_shared<Dictionary>();
    for (const auto& entry : value.toGenericDict()) {
      RANNC_ASSIGN(Item key, item(entry.key(), how, where));
      const std::string name = joined(how.name, std::to_string(made->entries.size()));
      RANNC_ASSIGN(Item of, item(entry.value(), {name, how.is_literal, how.is_parameter}, where));
      made->entries.emplace_back(std::move(key), std::move(of));
    }
    return Item(std::move(made));
  }
  return error(where, fmt::format("'{}' is {}, which is not supported", how.name, value.tagKind()));
}

Result<Item> State::tensor(const at::Tensor& tensor, const Naming& given, const Location& where) {
  if (!tensor.defined()) return Item();
  if (tensor.layout() != at::kStrided || tensor.is_quantized())
    return error(where, fmt::format("tensor '{}' is sparse or quantized, which is not supported", given.name));
  const Place place = place_of(tensor);
  const auto named = named_.find(place);
  const Naming& how = named == named_.end() ? given : named->second;
  if (const auto known = tensors_.find(place); known != tensors_.end() && tensor.numel() > 0)
    return Item(known->second);
  const auto dtype = ir::dtype_of_torch(static_cast<int>(tensor.scalar_type()));
  if (!dtype) {
    return error(where, fmt::format("tensor '{}' has elements of type {}, which is not supported", how.name,
                                    at::toString(tensor.scalar_type())));
  }
  ir::ValueType type;
  type.dtype = *dtype;
  type.shape.emplace(tensor.sizes().begin(), tensor.sizes().end());
  ir::TensorData data = archive_.data(tensor);
  type.contents = ir::constant_contents(type, data);
  const ValueId value = graph_.add_value(ir::ValueKind::kConstant, how.name, std::move(type), std::move(data));
  const std::string name(graph_.value(value).name);
  const bool trained = how.is_parameter && tensor.requires_grad();
  if (how.is_literal) {
    notes_.stored.literals.insert(name);
  } else if (ir::is_float(*dtype)) {
    notes_.stored.listed.emplace(name, trained ? ir::ValueKind::kParameter : ir::ValueKind::kConstant);
  }
  if (trained) ++parameters_;
  // A tensor of several names is one value, which `state_dict` has several times.
  if (const auto others = aliases_.find(how.name); others != aliases_.end()) {
    const std::vector<int64_t> sizes = tensor.sizes().vec();
    std::vector<int64_t> axes(sizes.size());
    std::iota(axes.begin(), axes.end(), 0);
    const ir::StatePart whole{value, std::vector<int64_t>(sizes.size()), sizes, axes};
    graph_.add_state({how.name, sizes, {whole}});
    for (const std::string& other : others->second) graph_.add_state({other, sizes, {whole}});
  }
  auto made = std::make_shared<Tensor>(value);
  if (!how.is_literal) made->set_state(name);
  tensors_.emplace(place, made);
  return Item(std::move(made));
}

}  // namespace rannc::frontend::torchscript
