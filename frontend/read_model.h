/// Reads a model file of any format.
#pragma once

#include <cstdint>
#include <filesystem>

#include "frontend/import.h"

namespace rannc::frontend {

enum class ModelFormat : uint8_t { kText, kOnnx, kTorchScript, kExported };

/// Returns the format of a file.
/// - Text and programs of `torch.export` are recognized by their extensions (.rir, .pt2).
/// - TorchScript is recognized by its first bytes, those of a zip archive, or by its extension (.pt, .pth, .ts), so
/// that a
///   corrupt file is still reported as what its user takes it for.
/// - Everything else is ONNX.
ModelFormat model_format(const std::filesystem::path& path);

/// Whether a file is an archive of PyTorch.
bool is_torch(ModelFormat format);

/// Imports a file by the frontend of its format; text is parsed and has no notes. Fails as that frontend does, and if
/// an option does not apply to the format: `inputs` and `outputs` only to PyTorch files, `input_values` only to ONNX
/// files.
Result<Imported> read_model(const std::filesystem::path& path, const ImportOptions& options = {});

}  // namespace rannc::frontend
