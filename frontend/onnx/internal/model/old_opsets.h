/// Converts models of operator sets 1 to 6 to the oldest supported operator set.
#pragma once

#include <string>

#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// Converts the model with ONNX's own converter, which gets all of it but the weights. Returns whether the model was
/// that old. Errors: findings of ONNX's checker and operators whose change the converter does not support.
Result<bool> renew_old_opset(ModelFile& model, const std::string& file);

}  // namespace rannc::frontend
