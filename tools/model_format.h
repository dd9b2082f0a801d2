/// Says which frontend reads a model's file.
#pragma once

#include <cstdint>
#include <string>

namespace rannc::tools {

enum class ModelFormat : uint8_t { kText, kOnnx, kTorchScript };

/// Text by its extension (.rir). TorchScript by the first bytes, which are a zip archive's, or by its extension (.pt,
/// .pth, .ts), so that a spoiled file is still called what its user takes it for. All else is ONNX, whatever it holds.
ModelFormat model_format(const std::string& path);

}  // namespace rannc::tools
