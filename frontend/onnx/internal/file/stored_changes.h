/// What of a model has to change for other numbers in its stored tensors.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "frontend/onnx/copy.h"
#include "frontend/onnx/internal/file/model_file.h"
#include "frontend/onnx/internal/translate/tensor.h"

namespace rannc::frontend {

struct StoredChanges {
  std::map<std::string, ir::TensorData> tensors;  ///< by name of an initializer, or of what a Constant node makes
  std::map<std::string, Tensor> added;            ///< initializers
  /// Of a node, by its number in the graph: the new name of an operand, which may be the first behind its last.
  std::map<std::pair<size_t, int>, std::string> operands;
  std::set<std::string> dropped;  ///< results of Identity nodes whose place an added initializer takes
};

/// Compares the graph's stored values with what the model has. See `copy_onnx` for the errors.
///
/// Passes part what exporters merged, and make one of what exporters wrote twice, also transposed; so a node's operand
/// is found by what the tasks at that node read: the value of the operand's name, else one that had its bytes. Every
/// changed value must be found at every task that reads it.
Result<StoredChanges> stored_changes(const ModelFile& model, const std::string& file, const ModelCopy& copy);

}  // namespace rannc::frontend
