/// Brings models of operator sets 1 to 6 to the oldest one that is translated.
#pragma once

#include <string>

#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// By ONNX's own converter, which sees all of the model but its weights. Whether the model was that old. Errors: what
/// ONNX's checker finds wrong with it, and operators whose change the converter does not know.
Result<bool> renew_old_opset(ModelFile& model, const std::string& file);

}  // namespace rannc::frontend
