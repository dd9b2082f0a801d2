/// Which nodes of a model its outputs need.
#pragma once

#include <string>
#include <vector>

#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// What is imported of a model, by place in the file.
struct Needed {
  std::vector<bool> outputs, nodes;
  /// Whether there is something else.
  bool leaves_out() const;
};

/// The outputs with these names, all where there are none or where the model has none of them, and the nodes on which
/// they depend. Linear in the model.
Result<Needed> needed_for(const ModelFile& model, const std::vector<std::string>& asked);

}  // namespace rannc::frontend
