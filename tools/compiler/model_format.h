/// Says which frontend reads a model's file.
#pragma once

#include <cstdint>
#include <string>

namespace rannc::tools {

enum class ModelFormat : uint8_t { kText, kOnnx, kTorchScript, kExported };

/// Text by its extension (.rir), a program of `torch.export` by its own (.pt2). TorchScript by the first bytes, which
/// are a zip archive's, or by its extension (.pt, .pth, .ts), so that a spoiled file is still called what its user
/// takes it for. All else is ONNX, whatever it holds. Archives of both kinds are read by one function, which looks
/// inside.
ModelFormat model_format(const std::string& path);
/// Whether it is an archive of PyTorch.
inline bool is_of_torch(ModelFormat format) {
  return format == ModelFormat::kTorchScript || format == ModelFormat::kExported;
}

}  // namespace rannc::tools
