#include "tools/module_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "ir/type.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;  // names are in the order in which a file has them
using Transform = ParameterLayout::Transform;

std::string card_path(const CheckFolder& folder) { return (fs::path(folder.path) / "card.json").string(); }

/// The card, of which `read` takes what it needs.
Result<void> with_card(const CheckFolder& folder, const std::function<Result<void>(const ordered_json&)>& read) {
  const std::string path = card_path(folder);
  std::ifstream file(path);
  if (!file) return error({path, 0, 0, {}}, "cannot be opened");
  try {
    return read(ordered_json::parse(file));
  } catch (const ordered_json::exception& failure) {
    return error({path, 0, 0, {}}, failure.what());
  }
}

/// An element type as ONNX calls it.
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

Result<std::string> input_of(const std::string& name, const ordered_json& type, const std::string& path) {
  const auto dtype = type.empty() ? std::nullopt : dtype_of(type.at(0).get<std::string>());
  if (!dtype)
    return error({path, 0, 0, name}, "inputs have an element type of ONNX and sizes, as [\"FLOAT\", \"batch\", 3]");
  std::vector<std::string> sizes;
  for (size_t i = 1; i < type.size(); ++i) {
    const ordered_json& size = type.at(i);
    sizes.push_back(size.is_string() ? size.get<std::string>() : fmt::format("{}", size.get<int64_t>()));
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

/// What the card says that an initializer holds; one that it does not list has its parameter's name and layout.
Result<ParameterLayout> layout_of(const std::string& initializer, const ordered_json& card, const std::string& path) {
  const ordered_json all = card.value("parameter_of_initializer", ordered_json());  // a text where names are equal
  if (!all.is_object() || !all.contains(initializer)) return ParameterLayout{{initializer}, Transform::kNone};
  const ordered_json& entry = all.at(initializer);
  ParameterLayout layout;
  const ordered_json& names = entry.at("state_dict");
  layout.parameters = names.is_array() ? names.get<std::vector<std::string>>() : std::vector{names.get<std::string>()};
  const std::string text = entry.value("transform", "none");
  const auto transform = transform_of(text);
  const size_t parts = transform == Transform::kLstmBias ? 2 : 1;
  if (!transform || layout.parameters.size() != parts) {
    return error({path, 0, 0, initializer},
                 fmt::format("holds {} by '{}': its reference cannot be compared with that of a TorchScript file",
                             fmt::join(layout.parameters, ", "), text));
  }
  layout.transform = *transform;
  return layout;
}

/// How references are called that lie in an initializer so.
std::string name_of(const ParameterLayout& layout) { return fmt::format("{}", fmt::join(layout.parameters, " and ")); }

using References = std::map<std::string, ReferenceTensor>;

/// By name of the reference: whose initializer's it is. Of several copies of one parameter, which all have the whole
/// gradient, the one that lies as the parameter does.
struct Source {
  std::string initializer;
  ParameterLayout layout;
};

Result<std::map<std::string, Source>> sources_of(const CheckFolder& folder, const ordered_json& card,
                                                 const std::string& path) {
  std::set<std::string> initializers = folder.parameters;
  for (const auto& [tag, references] : folder.gradients) {
    for (const auto& [name, tensor] : references) initializers.insert(name);
  }
  std::map<std::string, Source> sources;
  for (const std::string& initializer : initializers) {
    if (folder.constants.contains(initializer)) continue;
    RANNC_ASSIGN(const ParameterLayout layout, layout_of(initializer, card, path));
    const auto [at, fresh] = sources.try_emplace(name_of(layout), Source{initializer, layout});
    if (!fresh && layout.transform == Transform::kNone) at->second = {initializer, layout};
  }
  return sources;
}

/// References under their new names.
References renamed(const References& references, const std::map<std::string, Source>& sources) {
  References named;
  for (const auto& [name, source] : sources) {
    const auto found = references.find(source.initializer);
    if (found != references.end()) named.emplace(name, found->second);
  }
  return named;
}

/// Blocks of the first axis in another order: of PyTorch's gates i, f, g, o in ONNX's i, o, f, c, where g is c.
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

/// The elements of a reference, in its order, made of ours.
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

/// Our gradient of a parameter by its name in `state_dict`, and the trained tensors that it lies in.
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
  return with_card(folder, [&](const ordered_json& card) -> Result<void> {
    for (const auto& [name, type] : card.at("inputs").items()) {
      RANNC_ASSIGN(const std::string input, input_of(name, type, card_path(folder)));
      folder.inputs.push_back(input);
    }
    for (const auto& [name, type] : card.at("outputs").items()) folder.output_names.push_back(name);
    return {};
  });
}

Result<void> name_by_module(CheckFolder& folder) {
  for (auto* numbers : {&folder.gradients, &folder.outputs, &folder.state}) numbers->erase("file64");
  folder.losses.erase("file64");
  folder.file_off = 0;
  std::map<std::string, Source> sources;
  const bool by_state = !folder.state.empty();  // of every parameter, as it is
  RANNC_TRY(with_card(folder, [&](const ordered_json& card) -> Result<void> {
    folder.absent.clear();
    for (const auto& name : card.value("parameters_without_gradient", ordered_json::array()))
      folder.absent.insert(name);
    if (by_state) return {};
    RANNC_ASSIGN(sources, sources_of(folder, card, card_path(folder)));
    return {};
  }));
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
  OwnNumbers made{own.loss, own.outputs, {}, {}};
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
