/// Finds the values that a model reads if some of its inputs have fixed values.
#pragma once

#include <map>
#include <set>
#include <string>

#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// Returns the names of values, including inputs, that outputs of the graph depend on if each input in `values` has
/// that number (`NodeReads`). Linear in the model.
Result<std::set<std::string>> live_names(const ModelFile& model, const std::map<std::string, double>& values);

}  // namespace rannc::frontend
