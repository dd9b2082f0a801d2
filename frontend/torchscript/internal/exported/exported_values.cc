#include "frontend/torchscript/internal/exported/exported_values.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <stdexcept>

// GCC 12 sees an uninitialized variable in nlohmann's iterators.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace rannc::frontend::torchscript {

namespace {

constexpr int64_t kStrided = 7;  // layout number in the schema

Result<Item> named(const Names& names, const Json& name) {
  const auto found = names.find(text_of(name));
  if (found == names.end()) return error(fmt::format("value %{} is read before it is defined", text_of(name)));
  return found->second;
}

template <class Read>
Result<Item> list(const Json& json, Read&& read) {
  std::vector<Item> elements;
  for (const Json& each : json) {
    RANNC_ASSIGN(Item element, read(each));
    elements.push_back(std::move(element));
  }
  return list_of(std::move(elements));
}

/// Returns a number in a symbolic list: `as_name` or the number itself.
Result<Item> symbolic(const Names& names, const Json& json) {
  const auto [kind, value] = alternative_of(json);
  if (kind == "as_name") return named(names, value);
  return value_of(names, kind, value);
}

double number_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string& text = text_of(json);
  if (text == "Infinity" || text == "-Infinity")
    return text[0] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw std::out_of_range("'" + text + "' is no number");
}

Result<Item> memory_format(int64_t number) {
  // By the schema's numbers: contiguous, channels last, channels last 3D, preserve.
  constexpr std::array kFormats = {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                                   at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::Preserve};
  if (number < 1 || number > static_cast<int64_t>(kFormats.size())) return error("a memory format that is not known");
  return Item(ir::Dim(static_cast<int64_t>(kFormats[static_cast<size_t>(number - 1)])));
}

}  // namespace

Result<Item> value_of(const Names& names, const std::string& kind, const Json& value) {
  const auto integer = [&](const Json& each) { return Result<Item>(ir::Dim(integer_of(each))); };
  const auto number = [&](const Json& each) { return Result<Item>(number_of(each)); };
  const auto truth = [&](const Json& each) { return Result<Item>(each.get<bool>()); };
  const auto text = [&](const Json& each) { return Result<Item>(text_of(each)); };
  const auto size = [&](const Json& each) { return symbolic(names, each); };
  const auto tensor = [&](const Json& each) { return named(names, each.at("name")); };
  const auto tensors = [&](const Json& each) { return list(each, tensor); };
  const auto optional = [&](const Json& each) -> Result<Item> {
    const auto [of, given] = alternative_of(each);
    return of == "as_none" ? Result<Item>(Item()) : tensor(given);
  };
  if (kind == "as_none") return Item();
  if (kind == "as_tensor") return tensor(value);
  if (kind == "as_tensors") return tensors(value);
  if (kind == "as_optional_tensor") return optional(value);
  if (kind == "as_optional_tensors") return list(value, optional);
  if (kind == "as_nested_tensors") return list(value, tensors);
  if (kind == "as_int") return integer(value);
  if (kind == "as_ints") return list(value, integer);
  if (kind == "as_int_lists") return list(value, [&](const Json& each) { return list(each, integer); });
  if (kind == "as_float") return number(value);
  if (kind == "as_floats") return list(value, number);
  if (kind == "as_bool") return truth(value);
  if (kind == "as_bools") return list(value, truth);
  if (kind == "as_string" || kind == "as_operator") return text(value);
  if (kind == "as_strings") return list(value, text);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return size(value);
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") return list(value, size);
  if (kind == "as_device") return Item(Device{});
  if (kind == "as_scalar_type") {
    const auto type = scalar_type_of(integer_of(value));
    if (type) return Item(ir::Dim(static_cast<int64_t>(*type)));
  }
  if (kind == "as_layout" && integer_of(value) == kStrided) return Item(ir::Dim(0));
  if (kind == "as_memory_format") return memory_format(integer_of(value));
  return error(fmt::format("{} {}, which is not supported", kind, value.is_primitive() ? value.dump() : "…"));
}

Item as(const c10::TypePtr& type, const Item& item) {
  if (const auto optional = type->cast<c10::OptionalType>()) return as(optional->getElementType(), item);
  const auto list = type->cast<c10::ListType>();
  if (const Sequence* const given = list ? item.sequence() : nullptr) {
    std::vector<Item> elements;
    for (const Item& each : given->elements) elements.push_back(as(list->getElementType(), each));
    return list_of(std::move(elements));
  }
  const auto* const size = item.get<ir::Dim>();
  const bool is_number = size != nullptr && size->is_constant() && type->kind() == c10::TypeKind::FloatType;
  return is_number ? Item(static_cast<double>(size->constant())) : item;
}

const std::string& single_name(const Json& value) {
  return text_of(value.contains("as_name") ? value.at("as_name") : value.at("name"));
}

std::vector<std::string> names_of(const Json& outputs) {
  std::vector<std::string> names;
  for (const Json& output : outputs) {
    const auto [kind, value] = alternative_of(output);
    const Json& first = value.is_array() && !value.empty() ? value[0] : value;
    const Json& named = first.is_object() && first.contains("as_tensor") ? first.at("as_tensor") : first;
    names.push_back(named.is_object() && !named.empty() ? single_name(named) : std::string());
  }
  return names;
}

Result<void> name_results(Names& names, const Json& outputs, const std::vector<Item>& made) {
  if (outputs.size() > made.size())
    return error(fmt::format("{} results are given {} names", made.size(), outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto [kind, value] = alternative_of(outputs[i]);
    if (kind == "as_none") continue;
    if (!value.is_array()) {
      names[single_name(value)] = made[i];
      continue;
    }
    const Sequence* const list = made[i].sequence();
    if (list != nullptr && list->elements.size() != value.size())
      return error(fmt::format("{} results are given {} names", list->elements.size(), value.size()));
    // If the operator could not be translated, each name is unknown like the list.
    for (size_t k = 0; k < value.size(); ++k) {
      const Json& of = value[k].contains("as_tensor") ? value[k].at("as_tensor") : value[k];
      if (of.contains("name")) names[text_of(of.at("name"))] = list ? list->elements[k] : made[i];
    }
  }
  return {};
}

}  // namespace rannc::frontend::torchscript
