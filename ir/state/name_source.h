/// Determines the source of the name of a stored tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rannc::ir {

/// Source of a value's name in a model file, and what the name is evidence of.
enum class NameSource : uint8_t {
  kProgram,  ///< the program: a path of modules, or a name in its code
  kFolded,   ///< torch.onnx.export with dynamo=False, for a result that it computed from state: `onnx::MatMul_530`
  kNumber,   ///< old exporters, for any value: `12`
  kNode,     ///< an exporter, for the result of a node: `/layer/Constant_output_0`
  kTraced,  ///< torch.onnx.export with dynamo=True, for the result of an operator: `val_12`, `slice_1`; or rannc, for a
            ///< tensor that it separated from another: `weight:unnamed`
};

/// The only place that knows how exporters name values. Empty names are numbers.
NameSource source_of_name(std::string_view name);

/// Whether a name is not the program's.
inline bool is_synthetic(std::string_view name) { return source_of_name(name) != NameSource::kProgram; }
/// Whether the name alone shows that the exporter computed the tensor from state of the program.
inline bool is_folded(std::string_view name) { return source_of_name(name) == NameSource::kFolded; }

/// Operator of the node that reads a folded tensor, from the tensor's name: `MatMul` of `onnx::MatMul_530`.
std::string_view reader_of_folded(std::string_view name);

/// Operator that made a traced value, from the value's name: `clamp_min` of `clamp_min_1`. A name without a number at
/// its end is returned as it is.
std::string_view traced_op(std::string_view name);

/// Module of a path: `encoder.layer.0` of `encoder.layer.0.weight`; empty for a tensor of the model itself.
std::string module_of(std::string_view path);
/// Last part of a path: `weight` of `encoder.layer.0.weight`.
std::string last_word(std::string_view path);

}  // namespace rannc::ir
