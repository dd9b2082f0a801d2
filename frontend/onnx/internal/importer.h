/// Turns a model into a task graph.
#pragma once

#include <string>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/model_file.h"

namespace rannc::frontend {

/// The graph of a model of `ModelFile`; `file` is the path of its file, of `bytes`. Where an elementwise task can run
/// only if two symbols of inputs are equal, they are read as one: that is what the model's author must have meant.
Result<Imported> import_model(const ModelFile& model, uint64_t bytes, const std::string& file,
                              const ImportOptions& options);

}  // namespace rannc::frontend
