/// Lists a model's stored tensors and the nodes that may read them.
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
  std::string name;  ///< as in the locations of tasks
  std::vector<std::string> inputs;
  bool takes_bias = false;  ///< whether it can take a bias as third operand but has none
};

struct StoredPlaces {
  std::map<std::string, Tensor> initializers;            ///< of supported types
  std::set<std::string> constants;                       ///< results of Constant nodes with a tensor
  std::unordered_map<std::string, std::string> renamed;  ///< from the result of an Identity to its operand
  std::vector<NodePlace> nodes;                          ///< in file order
  std::set<std::string> names;                           ///< of all values
  std::set<std::string> outputs;                         ///< of the graph

  /// The name before renaming by Identity nodes.
  const std::string& origin(const std::string& name) const;
};

Result<StoredPlaces> stored_places(const ModelFile& model, const std::string& file);

}  // namespace rannc::frontend
