/// Finds the nodes of a model that its required outputs depend on.
#pragma once

#include <string>
#include <vector>

#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// The imported part of a model, by position in the file.
struct Needed {
  std::vector<bool> outputs, nodes;
  /// Whether anything is not imported.
  bool leaves_out() const;
};

/// Returns the outputs with the names in `required` and the nodes that they depend on. Returns all outputs if
/// `required` is empty or the model has none of them. Linear in the model.
Result<Needed> needed_for(const ModelFile& model, const std::vector<std::string>& required);

}  // namespace rannc::frontend
