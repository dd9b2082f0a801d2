/// Translates a model into a task graph.
#pragma once

#include <string>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

struct FileOnDisk {
  const std::string& path;
  uint64_t bytes = 0;
};

/// Imports a model whose inputs in `options.input_values` have fixed numbers. If an elementwise task can run only if
/// two symbols of inputs are equal, they are read as one symbol, which the model's author must have meant.
Result<Imported> import_model(const ModelFile& model, const FileOnDisk& file, const ImportOptions& options);

}  // namespace rannc::frontend
