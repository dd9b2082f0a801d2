#include "tools/check/module_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <utility>

#include "ir/graph/type.h"
#include "tools/check/card.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;
using Transform = ParameterLayout::Transform;

Result<CardField> card_of(const CheckFolder& folder) {
  return read_card_file((fs::path(folder.path) / "card.json").string());
}

/// Parses ONNX's name of an element type.
std::optional<ir::DType> dtype_of(const std::string& text) {
  static const std::map<std::string, ir::DType> kTypes = {
      {"FLOAT", ir::DType::kF32},    {"DOUBLE", ir::DType::kF64}, {"FLOAT16", ir::DType::kF16},
      {"INT64", ir::DType::kI64},    {"INT32", ir::DType::kI32},  {"INT16", ir::DType::kI16},
      {"INT8", ir::DType::kI8},      {"UINT64", ir::DType::kU64}, {"UINT32", ir::DType::kU32},
      {"UINT16", ir::DType::kU16},   {"UINT8", ir::DType::kU8},   {"BOOL", ir::DType::kBool},
      {"BFLOAT16", ir::DType::kBF16}};
  const auto found = kTypes.find(text);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

Result<std::string> size_of(const CardField& size) {
  if (size.is_text()) return size.text();
  RANNC_ASSIGN(const int64_t number, size.integer());
  return fmt::format("{}", number);
}

Result<std::string> input_of(const std::string& name, const CardField& field) {
  RANNC_ASSIGN(const std::vector<CardField> type, field.elements());
  std::optional<ir::DType> dtype;
  if (!type.empty()) {
    RANNC_ASSIGN(const std::string text, type[0].text());
    dtype = dtype_of(text);
  }
  if (!dtype) return field.fault("expected an ONNX element type and sizes, such as [\"FLOAT\", \"batch\", 3]");
  std::vector<std::string> sizes;
  for (size_t i = 1; i < type.size(); ++i) {
    RANNC_ASSIGN(std::string size, size_of(type[i]));
    sizes.push_back(std::move(size));
  }
  return fmt::format("{}={}[{}]", name, ir::str(*dtype), fmt::join(sizes, ","));
}

std::optional<Transform> transform_of(const std::string& text) {
  static const std::map<std::string, Transform> kTransforms = {{"none", Transform::kNone},
                                                               {"transpose", Transform::kTranspose},
                                                               {"lstm_gates", Transform::kLstmGates},
                                                               {"lstm_bias", Transform::kLstmBias}};
  const auto found = kTransforms.find(text);
  return found == kTransforms.end() ? std::nullopt : std::optional(found->second);
}

/// Returns the parameters in an initializer according to the card. An unlisted one has its parameter's name and layout.
Result<ParameterLayout> layout_of(const std::string& initializer, const CardField& card) {
  const ParameterLayout as_named{{initializer}, Transform::kNone};
  RANNC_ASSIGN(const auto all, card.find("parameter_of_initializer"));
  if (!all || !all->is_object()) return as_named;  // a string means that names are equal
  RANNC_ASSIGN(const auto entry, all->find(initializer));
  if (!entry) return as_named;
  ParameterLayout layout;
  RANNC_ASSIGN(const CardField names, entry->at("state_dict"));
  if (names.is_list()) {
    RANNC_ASSIGN(layout.parameters, names.texts());
  } else {
    RANNC_ASSIGN(std::string name, names.text());
    layout.parameters = {std::move(name)};
  }
  std::string text = "none";
  RANNC_ASSIGN(const auto field, entry->find("transform"));
  if (field) {
    RANNC_ASSIGN(text, field->text());
  }
  const auto transform = transform_of(text);
  const size_t parts = transform == Transform::kLstmBias ? 2 : 1;
  if (!transform || layout.parameters.size() != parts) {
    return entry->fault(
        fmt::format("contains {} with transform '{}': its reference cannot be compared with a TorchScript file",
                    fmt::join(layout.parameters, ", "), text));
  }
  layout.transform = *transform;
  return layout;
}

/// Returns the name of a reference with this layout.
std::string name_of(const ParameterLayout& layout) { return fmt::format("{}", fmt::join(layout.parameters, " and ")); }

using References = std::map<std::string, ReferenceTensor>;

/// The initializer that a reference belongs to. Of several copies of one parameter, which all have the whole gradient,
/// it is the one with the parameter's layout.
struct Source {
  std::string initializer;
  ParameterLayout layout;
};

Result<std::map<std::string, Source>> sources_of(const CheckFolder& folder, const CardField& card) {
  std::set<std::string> initializers = folder.parameters;
  for (const auto& [tag, references] : folder.gradients) {
    for (const auto& [name, tensor] : references) initializers.insert(name);
  }
  std::map<std::string, Source> sources;
  for (const std::string& initializer : initializers) {
    if (folder.constants.contains(initializer)) continue;
    RANNC_ASSIGN(const ParameterLayout layout, layout_of(initializer, card));
    const auto [at, fresh] = sources.try_emplace(name_of(layout), Source{initializer, layout});
    if (!fresh && layout.transform == Transform::kNone) at->second = {initializer, layout};
  }
  return sources;
}

/// Returns the references under their new names.
References renamed(const References& references, const std::map<std::string, Source>& sources) {
  References named;
  for (const auto& [name, source] : sources) {
    const auto found = references.find(source.initializer);
    if (found != references.end()) named.emplace(name, found->second);
  }
  return named;
}

/// Reorders blocks of the first axis from PyTorch's gate order i, f, g, o to ONNX's i, o, f, c, where g is c.
std::vector<double> gates_of_onnx(const std::vector<double>& values) {
  constexpr std::array<size_t, 4> kOrder = {0, 3, 1, 2};
  const auto block = static_cast<std::ptrdiff_t>(values.size() / kOrder.size());
  std::vector<double> ordered;
  for (const size_t gate : kOrder) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(gate) * block;
    ordered.insert(ordered.end(), first, first + block);
  }
  return ordered;
}

std::vector<double> transposed(const OwnTensor& matrix) {
  if (matrix.shape.size() != 2) return matrix.values;
  const auto rows = static_cast<size_t>(matrix.shape[0]), columns = static_cast<size_t>(matrix.shape[1]);
  std::vector<double> turned(matrix.values.size());
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) turned[c * rows + r] = matrix.values[r * columns + c];
  }
  return turned;
}

/// Converts our tensors to the elements of a reference, in its order.
std::vector<double> elements_of(Transform transform, const std::vector<const OwnTensor*>& tensors) {
  const OwnTensor& first = *tensors.front();
  switch (transform) {
    case Transform::kNone:
      return first.values;
    case Transform::kTranspose:
      return transposed(first);
    case Transform::kLstmGates:
      return gates_of_onnx(first.values);
    case Transform::kLstmBias:
      break;
  }
  std::vector<double> joined;
  for (const OwnTensor* tensor : tensors) {
    const std::vector<double> part = gates_of_onnx(tensor->values);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  return joined;
}

/// Our gradient of a parameter, found by its `state_dict` name, and the trained tensors that contain it.
struct Found {
  const OwnTensor* tensor = nullptr;
  std::set<std::string> of;
};

Found find(const OwnNumbers& own, const std::string& parameter) {
  if (const auto state = own.state.find(parameter); state != own.state.end())
    return {&state->second.tensor, state->second.of};
  const auto gradient = own.gradients.find(parameter);
  return gradient == own.gradients.end() ? Found{} : Found{&gradient->second, {parameter}};
}

}  // namespace

Result<void> read_signature(CheckFolder& folder) {
  RANNC_ASSIGN(const CardField card, card_of(folder));
  RANNC_ASSIGN(const CardField inputs_field, card.at("inputs"));
  RANNC_ASSIGN(const auto inputs, inputs_field.members());
  for (const auto& [name, type] : inputs) {
    RANNC_ASSIGN(const std::string input, input_of(name, type));
    folder.inputs.push_back(input);
  }
  RANNC_ASSIGN(const CardField outputs_field, card.at("outputs"));
  RANNC_ASSIGN(const auto outputs, outputs_field.members());
  for (const auto& [name, type] : outputs) folder.output_names.push_back(name);
  return {};
}

Result<void> name_by_module(CheckFolder& folder) {
  for (auto* numbers : {&folder.gradients, &folder.outputs, &folder.state}) numbers->erase("file64");
  folder.losses.erase("file64");
  folder.file_off = 0;
  const bool by_state = !folder.state.empty();  // references of all parameters in their own layout
  RANNC_ASSIGN(const CardField card, card_of(folder));
  folder.absent.clear();
  RANNC_ASSIGN(const auto without, card.find("parameters_without_gradient"));
  if (without) {
    RANNC_ASSIGN(const std::vector<std::string> names, without->texts());
    folder.absent.insert(names.begin(), names.end());
  }
  std::map<std::string, Source> sources;
  if (!by_state) {
    RANNC_ASSIGN(sources, sources_of(folder, card));
  }
  if (by_state) {
    folder.gradients = std::exchange(folder.state, {});
    for (const auto& [name, tensor] : folder.gradients.begin()->second)
      sources[name] = {name, {{name}, Transform::kNone}};
  }
  for (auto& [tag, references] : folder.gradients) references = renamed(references, sources);
  folder.parameters.clear();
  for (auto& [name, source] : sources) {
    if (!folder.absent.contains(name)) folder.parameters.insert(name);
    folder.layouts.emplace(name, std::move(source.layout));
  }
  folder.constants.clear();
  folder.tied.clear();
  return {};
}

OwnNumbers laid_out(const CheckFolder& folder, const OwnNumbers& own) {
  OwnNumbers made{own.loss, own.outputs, {}, {}, own.in_branches};
  std::set<std::string> taken;
  for (const auto& [name, layout] : folder.layouts) {
    std::vector<const OwnTensor*> tensors;
    for (const std::string& parameter : layout.parameters) {
      const Found found = find(own, parameter);
      taken.insert(found.of.begin(), found.of.end());
      if (found.tensor != nullptr) tensors.push_back(found.tensor);
    }
    if (tensors.size() < layout.parameters.size()) continue;
    std::vector<double> elements = elements_of(layout.transform, tensors);
    const auto count = static_cast<int64_t>(elements.size());
    made.gradients[name] = {{count}, std::move(elements)};
  }
  for (const auto& [name, tensor] : own.gradients) {
    if (!taken.contains(name)) made.gradients.emplace(name, tensor);
  }
  return made;
}

}  // namespace rannc::tools
