#include "frontend/onnx/internal/input_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "frontend/onnx/internal/tensor.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::TensorShapeProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

/// `text` with everything a symbol cannot hold replaced.
std::string symbol_name(std::string_view text) {
  std::string name;
  for (const char c : text)
    name.push_back(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_');
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || name[0] == '.') name.insert(0, "_");
  return name;
}

bool is_symbol(std::string_view text) { return !text.empty() && symbol_name(text) == text; }

class Reader {
 public:
  Reader(const std::vector<const ValueInfoProto*>& inputs, const ImportOptions& options, const std::string& file)
      : inputs_(inputs), options_(options), file_(file) {
    for (const ValueInfoProto* const input : inputs) {
      for (const auto& dim : input->type().tensor_type().shape().dim()) {
        if (is_symbol(dim.dim_param())) names_.insert(dim.dim_param());
      }
    }
  }

  Result<InputTypes> read() {
    InputTypes result;
    for (const ValueInfoProto* const input : inputs_) {
      RANNC_ASSIGN(ir::ValueType type, read_type(*input));
      result.types.push_back(std::move(type));
    }
    for (const auto& [from, to] : options_.same_symbol) {
      for (ir::ValueType& type : result.types) substitute(type, from, ir::Dim::symbol(symbol_name(to)));
    }
    RANNC_ASSIGN(result.batch_symbol, choose_batch(result.types));
    if (result.batch_symbol.empty()) return result;
    for (const std::string& other : other_batches(result)) {
      for (ir::ValueType& type : result.types) substitute(type, other, ir::Dim::symbol(result.batch_symbol));
    }
    for (ir::ValueType& type : result.types) set_layout(type, result.batch_symbol);
    return result;
  }

 private:
  Result<ir::ValueType> read_type(const ValueInfoProto& input) {
    const Location where{file_, 0, 0, input.name()};
    if (input.type().value_case() != ONNX_NAMESPACE::TypeProto::kTensorType) {
      using Type = ONNX_NAMESPACE::TypeProto;
      const auto type = input.type().value_case();
      const std::string_view what = type == Type::kSequenceType       ? "a sequence"
                                    : type == Type::kOptionalType     ? "an optional"
                                    : type == Type::kMapType          ? "a map"
                                    : type == Type::kSparseTensorType ? "a sparse tensor"
                                                                      : "of no type that is known";
      return error(where, fmt::format("input '{}' is {}, where only tensors can be fed: export the model with an input "
                                      "for each tensor that it takes",
                                      input.name(), what));
    }
    const auto& tensor = input.type().tensor_type();
    const auto dtype = element_type(tensor.elem_type());
    if (!dtype) {
      return error(where, fmt::format("input '{}' has elements of type {}, which is not supported", input.name(),
                                      element_type_name(tensor.elem_type())));
    }
    ir::ValueType type;
    type.dtype = *dtype;
    if (!tensor.has_shape()) {
      return error(where, fmt::format("input '{}' has no shape: its rank has to be known", input.name()));
    }
    type.shape.emplace();
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
      const auto& dim = tensor.shape().dim(axis);
      if (dim.has_dim_value() && dim.dim_value() < 0) {
        return error(where,
                     fmt::format("input '{}' has the extent {} on axis {}", input.name(), dim.dim_value(), axis));
      }
      type.shape->push_back(read_dim(dim, fmt::format("{}_d{}", input.name(), axis)));
    }
    return type;
  }

  /// An expression is one only over names that other dimensions have: `batch-size` alone is a name.
  ir::Dim read_dim(const TensorShapeProto::Dimension& dim, const std::string& otherwise) const {
    if (dim.has_dim_value()) return dim.dim_value();
    if (dim.dim_param().empty()) return ir::Dim::symbol(symbol_name(otherwise));
    if (!is_symbol(dim.dim_param())) {
      const auto parsed = ir::Dim::parse(dim.dim_param());
      std::set<std::string> used;
      if (parsed.ok()) parsed->collect_symbols(used);
      if (parsed.ok() && std::includes(names_.begin(), names_.end(), used.begin(), used.end())) return *parsed;
    }
    return ir::Dim::symbol(symbol_name(dim.dim_param()));
  }

  static void substitute(ir::ValueType& type, std::string_view symbol, const ir::Dim& by) {
    if (!type.shape) return;
    for (ir::Dim& dim : *type.shape) {
      if (dim.uses(symbol)) dim = dim.substitute(symbol, by);
    }
  }

  /// The one symbol of all inputs that the file calls a batch, on whichever axis; empty where there are several or
  /// none.
  static std::string named_batch(const std::vector<ir::ValueType>& types) {
    std::set<std::string> named;
    for (const ir::ValueType& type : types) {
      for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
        if (!dim.is_symbol()) continue;
        std::string name = dim.symbol_name();
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
        if (name.find("batch") != std::string::npos) named.insert(dim.symbol_name());
      }
    }
    return named.size() == 1 ? *named.begin() : std::string();
  }

  Result<std::string> choose_batch(const std::vector<ir::ValueType>& types) const {
    if (!options_.batch_symbol) {
      if (const std::string named = named_batch(types); !named.empty()) return named;
      for (const ir::ValueType& type : types) {
        if (type.shape && !type.shape->empty() && type.shape->front().is_symbol()) {
          return type.shape->front().symbol_name();
        }
      }
      return std::string();
    }
    for (const ir::ValueType& type : types) {
      for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) {
        if (dim.is_symbol() && dim.symbol_name() == *options_.batch_symbol) return *options_.batch_symbol;
      }
    }
    return error(Location{file_}, fmt::format("no input has a dimension named '{}'", *options_.batch_symbol));
  }

  /// Other names for the batch: symbols on axis 0 of inputs of rank 2 and more that are on no other axis of any input,
  /// nor on an input that has the batch elsewhere.
  static std::set<std::string> other_batches(const InputTypes& inputs) {
    std::set<std::string> leading, elsewhere;
    for (const ir::ValueType& type : inputs.types) {
      if (!type.shape) continue;
      const auto has_batch = [&](const ir::Dim& dim) { return dim.uses(inputs.batch_symbol); };
      const bool named = std::any_of(type.shape->begin(), type.shape->end(), has_batch);
      for (size_t axis = 0; axis < type.shape->size(); ++axis) {
        const ir::Dim& dim = (*type.shape)[axis];
        if (!named && axis == 0 && dim.is_symbol() && type.shape->size() > 1) {
          leading.insert(dim.symbol_name());
        } else {
          dim.collect_symbols(elsewhere);
        }
      }
    }
    std::set<std::string> others;
    for (const std::string& name : leading) {
      if (name != inputs.batch_symbol && !elsewhere.contains(name)) others.insert(name);
    }
    return others;
  }

  static void set_layout(ir::ValueType& type, const std::string& batch) {
    for (size_t axis = 0; type.shape && axis < type.shape->size(); ++axis) {
      if ((*type.shape)[axis] == ir::Dim::symbol(batch)) {
        type.batch.axis = static_cast<int32_t>(axis);
        return;
      }
    }
  }

  const std::vector<const ValueInfoProto*>& inputs_;
  const ImportOptions& options_;
  const std::string& file_;
  std::set<std::string> names_;  ///< dimensions that are plain symbols
};

}  // namespace

Result<InputTypes> read_input_types(const std::vector<const ValueInfoProto*>& inputs, const ImportOptions& options,
                                    const std::string& file) {
  return Reader(inputs, options, file).read();
}

}  // namespace rannc::frontend
