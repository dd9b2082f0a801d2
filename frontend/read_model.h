/// Parses a model file of any format.
#pragma once

#include <cstdint>
#include <filesystem>

#include "frontend/import.h"

namespace rannc::frontend {

enum class ModelFormat : uint8_t { kText, kOnnx, kTorchScript, kExported };

/// Returns the format of a model.
/// - Text and programs of `torch.export` are recognized by their extensions (.rir, .pt2).
/// - TorchScript is recognized by its first bytes, those of a zip archive, or by its extension (.pt, .pth, .ts), so
/// that a
///   corrupt file is still reported as what its user takes it for.
/// - Everything else is ONNX.
ModelFormat model_format(const ModelSource& source);

/// Whether a file is an archive of PyTorch.
bool is_torch(ModelFormat format);

/// A parsed model file, from which every attempt to compile it starts.
struct ParsedModel {
  ModelFormat format = ModelFormat::kText;
  ImportParsed import;
};

/// Parses a model by the frontend of its format; the import of text has no notes. Both fail as that frontend does, and
/// if an option does not apply to the format: `inputs` and `outputs` only to PyTorch files, `input_values` not to
/// programs of `torch.export`, `sizes` not to text. Of `options`, parsing uses `max_file_bytes`.
Result<ParsedModel> parse_model(const ModelSource& source, const ImportOptions& options = {});

/// Parses and imports a model.
Result<Imported> read_model(const ModelSource& source, const ImportOptions& options = {});

}  // namespace rannc::frontend
