#include "frontend/torchscript/internal/state.h"

#include <fmt/format.h>

namespace rannc::frontend::torchscript {

namespace {

/// Whether an item is the same in every graph.
bool is_plain(const Item& item) {
  const auto* const number = item.get<ir::Dim>();
  return (number && number->is_constant()) || item.is_none() || item.get<bool>() || item.get<double>() ||
         item.get<std::string>();
}

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

}  // namespace

State::Place State::place_of(const at::Tensor& tensor) {
  return {tensor.storage().data(), tensor.storage_offset(), tensor.sizes().vec(), tensor.strides().vec(),
          static_cast<int>(tensor.scalar_type())};
}

State::State(const Archive& archive, ir::Graph& graph, ImportNotes& notes, const CallBefore& before)
    : archive_(archive), graph_(graph), notes_(notes), before_(before) {
  const auto name = [&](const std::string& name, const at::Tensor& tensor, bool is_parameter) {
    const bool has_place = tensor.defined() && tensor.layout() == at::kStrided && tensor.numel() > 0;
    if (!has_place) return;
    const auto [known, fresh] = named_.try_emplace(place_of(tensor), Naming{name, false, is_parameter});
    if (!fresh && name != known->second.name) aliases_[known->second.name].push_back(name);
    if (fresh)
      memory_.add(fmt::format("{}", tensor.storage().data()), tensor.storage_offset(), tensor.sizes(), tensor.strides(),
                  name, is_parameter && tensor.requires_grad());
  };
  for (const auto& parameter : archive.module().named_parameters()) {
    has_no_parameters_ = false;
    name(parameter.name, parameter.value, true);
  }
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
    // The path is that of the first access. A module with several paths is reached by this one.
    if (const auto* child = known->second.get<Object>()) return Item(Object{joined(object.path, name), child->handle});
    return known->second;
  }
  const auto& found = objects_[object.handle].toObjectRef();
  const auto slot = found.type()->findAttributeSlot(name);
  if (!slot) return error(where, fmt::format("'{}' has no attribute {}", object.path, name));
  if (const auto left = before_.left.find({&found, name}); left != before_.left.end())
    return attributes_.emplace(key, left->second).first->second;
  const bool is_parameter = found.type()->is_module() && found.type()->is_parameter(*slot);
  RANNC_ASSIGN(Item made, item(found.getSlot(*slot), {joined(object.path, name), false, is_parameter}, where));
  return attributes_.emplace(key, std::move(made)).first->second;
}

void State::set_attribute(const Object& object, const std::string& name, Item item) {
  attributes_[{object.handle, name}] = std::move(item);
}

Attributes State::left() const {
  Attributes left;
  for (const auto& [key, item] : attributes_) {
    const auto& object = objects_[key.first].toObjectRef();
    if (!object.type()->is_module()) continue;
    const std::optional<Item> stored = plain_item(object.getSlot(*object.type()->findAttributeSlot(key.second)));
    const bool had_plain = stored && is_plain(*stored);
    if (had_plain && is_same_plain(*stored, item)) continue;
    if (is_plain(item)) {
      left.emplace(std::pair(&object, key.second), item);
    } else if (had_plain) {
      return {};
    }
  }
  return left;
}

Result<Item> State::literal(const at::IValue& value, const std::string& name, const Location& where) {
  return item(value, {name, true, false}, where);
}

Result<Item> State::item(const at::IValue& value, const Naming& how, const Location& where) {
  if (value.isTensor()) return tensor(value.toTensor(), how, where);
  if (auto plain = plain_item(value)) return *std::move(plain);
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

Result<Item> State::tensor(const at::Tensor& given_tensor, const Naming& given, const Location& where) {
  if (!given_tensor.defined()) return Item();
  const bool is_complex = given_tensor.is_complex(), requires_grad = given_tensor.requires_grad();
  RANNC_ASSIGN(const at::Tensor tensor,
               real_numbers(given_tensor, given.name, given.is_parameter && requires_grad, where));
  RANNC_ASSIGN(ir::ValueType type, stored_type(tensor, given.name, where));
  const auto as_item = [&](const TensorRef& made) { return is_complex ? Item(Complex{made}) : Item(made); };
  const Place place = place_of(given_tensor);
  const auto named = named_.find(place);
  const Naming& how = named == named_.end() ? given : named->second;
  if (const auto known = tensors_.find(place); known != tensors_.end() && tensor.numel() > 0)
    return as_item(known->second);
  const bool trained = how.is_parameter && requires_grad;
  const auto others = aliases_.find(how.name);
  // Freezing turns all state of a module into literals in the code.
  const StoredTensor stored{how.name, others == aliases_.end() ? std::vector<std::string>() : others->second,
                            has_no_parameters_ && how.is_literal && !is_complex ? Role::kUnknown
                            : how.is_literal || is_complex                      ? Role::kLiteral
                            : trained                                           ? Role::kParameter
                                                                                : Role::kConstant};
  RANNC_ASSIGN(ir::TensorData data, archive_.file().data(tensor, copied_));
  TensorRef made = add_stored(graph_, notes_, stored, std::move(type), std::move(data), before_.written);
  // A trace stores what a module keeps beside its buffers as constants of the code, which a run writes likewise.
  if (stored.role == Role::kLiteral) made->set_state(std::string(graph_.value(made->now()).name));
  tensors_.emplace(place, made);
  return as_item(made);
}

}  // namespace rannc::frontend::torchscript
