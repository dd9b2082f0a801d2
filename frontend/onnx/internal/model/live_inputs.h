/// Values that a model reads where some of its inputs always have the same value.
#pragma once

#include <map>
#include <set>
#include <string>

#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// Names of values, inputs among them, that outputs of the graph depend on where each of `values` is that number
/// (`NodeReads`). Linear in the model.
Result<std::set<std::string>> live_names(const ModelFile& model, const std::map<std::string, double>& values);

}  // namespace rannc::frontend
