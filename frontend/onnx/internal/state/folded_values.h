/// Reads an exporter's records of the values that its optimizer folded.
#pragma once

#include "frontend/import.h"
#include "frontend/onnx/internal/file/model_file.h"

namespace rannc::frontend {

/// Returns `StoredNotes::folded` from the metadata that torch.onnx.export with dynamo=True writes. Empty without them.
std::map<std::string, std::vector<std::string>> folded_values(const ModelFile& model);

}  // namespace rannc::frontend
