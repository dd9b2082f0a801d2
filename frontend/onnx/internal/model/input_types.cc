#include "frontend/onnx/internal/model/input_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "frontend/internal/batch.h"
#include "frontend/onnx/internal/translate/tensor.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::TensorShapeProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

bool is_symbol(std::string_view text) { return !text.empty() && symbol_name(text) == text; }

/// Whether an extent has neither a size nor a name: exporters write nothing, -1 or `?`.
bool is_free(const TensorShapeProto::Dimension& dim) {
  if (dim.has_dim_value()) return dim.dim_value() < 0;
  const std::string& text = dim.dim_param();
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0; };
  if (std::none_of(text.begin(), text.end(), is_word)) return true;
  const auto parsed = ir::Dim::parse(text);
  return parsed.ok() && parsed->is_constant() && parsed->constant() < 0;
}

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
    RANNC_ASSIGN(result.batch_symbol, settle_batch(result.types, options_, file_));
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
      return error(
          where, fmt::format(
                     "input '{}' is {}, but only tensors are supported: export the model with an input for each tensor",
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
      type.shape->push_back(read_dim(tensor.shape().dim(axis), fmt::format("{}_d{}", input.name(), axis)));
    }
    return type;
  }

  /// Text is an expression only if other dimensions have the names in it. Otherwise `batch-size` is a name.
  ir::Dim read_dim(const TensorShapeProto::Dimension& dim, const std::string& otherwise) const {
    if (is_free(dim)) return ir::Dim::symbol(symbol_name(otherwise));
    if (dim.has_dim_value()) return dim.dim_value();
    if (!is_symbol(dim.dim_param())) {
      const auto parsed = ir::Dim::parse(dim.dim_param());
      std::set<std::string> used;
      if (parsed.ok()) parsed->collect_symbols(used);
      if (parsed.ok() && std::includes(names_.begin(), names_.end(), used.begin(), used.end())) return *parsed;
    }
    return ir::Dim::symbol(symbol_name(dim.dim_param()));
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

Result<std::optional<Note>> check_output_type(const ValueInfoProto& output, const ir::ValueType& inferred,
                                              const std::string& file) {
  const std::optional<Note> fits;
  if (!output.type().has_tensor_type() || !inferred.shape) return fits;
  const auto& declared = output.type().tensor_type();
  const Location where{file, 0, 0, output.name()};
  const auto dtype = element_type(declared.elem_type());
  if (dtype && *dtype != inferred.dtype) {
    return error(where, fmt::format("output '{}' is declared with elements {}, but the nodes compute {}", output.name(),
                                    ir::str(*dtype), ir::str(inferred.dtype)));
  }
  if (!declared.has_shape()) return fits;
  const auto rank = static_cast<size_t>(declared.shape().dim_size());
  if (rank != inferred.shape->size()) {
    return std::optional(Note{where, fmt::format("output '{}' is declared with {} axes, but the nodes compute {}",
                                                 output.name(), rank, ir::str(*inferred.shape))});
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto& dim = declared.shape().dim(static_cast<int>(axis));
    const ir::Dim& own = (*inferred.shape)[axis];
    const bool is_number = dim.has_dim_value() && dim.dim_value() > 0 && own.is_constant();  // 0: not known
    if (!is_number || own.constant() == dim.dim_value()) continue;
    return error(where, fmt::format("output '{}' is declared with extent {} on axis {}, but the nodes compute {}",
                                    output.name(), dim.dim_value(), axis, ir::str(*inferred.shape)));
  }
  return fits;
}

}  // namespace rannc::frontend
