/// Tensors that a file stores, as constants of the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "frontend/import.h"
#include "frontend/torchscript/internal/aliases.h"

namespace rannc::frontend::torchscript {

/// What a stored tensor is to the program.
enum class Role : uint8_t {
  kLiteral,    ///< a number of its code: no state
  kConstant,   ///< state that is not trained
  kParameter,  ///< state that is trained
  kUnknown,    ///< the archive does not say: where it is used tells, as in a file of ONNX
};

/// What the program says of a stored tensor.
struct StoredTensor {
  std::string name;                 ///< as `state_dict` has it
  std::vector<std::string> others;  ///< further names of the same tensor, all of it
  Role role = Role::kLiteral;
};

/// Adds a constant of that type, and says in `notes` what is known of it. `type` is that of the file.
TensorRef add_stored(ir::Graph& graph, ImportNotes& notes, const StoredTensor& stored, ir::ValueType type,
                     ir::TensorData data);

/// The type of a tensor, or an error where the graph has no such elements, or it is no plain one.
Result<ir::ValueType> stored_type(const at::Tensor& tensor, const std::string& name, const Location& where);

}  // namespace rannc::frontend::torchscript
