/// Where a model has stored tensors, and which of its nodes read them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/internal/file/external_data.h"
#include "frontend/onnx/internal/file/model_file.h"
#include "frontend/onnx/internal/translate/tensor.h"

namespace rannc::frontend {

/// A node of the model's graph.
struct NodePlace {
  std::string name;  ///< as locations of tasks have it
  std::vector<std::string> inputs;
  bool takes_bias = false;  ///< as its third operand, which it lacks
};

struct StoredPlaces {
  std::map<std::string, Tensor> initializers;            ///< of types that are read here
  std::set<std::string> constants;                       ///< results of Constant nodes that hold a tensor
  std::unordered_map<std::string, std::string> renamed;  ///< by the name that an Identity gives, its operand
  std::vector<NodePlace> nodes;                          ///< in their order
  std::set<std::string> names;                           ///< of all values
  std::set<std::string> outputs;                         ///< of the graph

  /// The name before it was renamed.
  const std::string& origin(const std::string& name) const;
};

Result<StoredPlaces> stored_places(const ModelFile& model, const std::string& file);

}  // namespace rannc::frontend
