/// Determines the changes to a model file for other numbers in its stored tensors.
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
  std::map<std::string, ir::TensorData> tensors;  ///< by name of an initializer or of a Constant node's result
  std::map<std::string, Tensor> added;            ///< new initializers
  /// New operand names by node number in the graph and operand index. The index may be one past the last operand.
  std::map<std::pair<size_t, int>, std::string> operands;
  std::set<std::string> dropped;  ///< results of Identity nodes that an added initializer replaces
};

/// Compares the graph's stored values with those of the model. See `copy_onnx` for the errors.
///
/// Passes split tensors that exporters merged and merge tensors that exporters duplicated, also transposed. Therefore a
/// node's operand is matched with the values that the tasks of that node read: the value with the operand's name, or
/// else one that had its bytes. Every changed value must be matched at every task that reads it.
Result<StoredChanges> stored_changes(const ModelFile& model, const std::string& file, const ModelCopy& copy);

}  // namespace rannc::frontend
