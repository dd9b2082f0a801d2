/// Writes the file of one stage.
#pragma once

#include <filesystem>

#include "frontend/onnx/internal/cut/stage_parts.h"
#include "frontend/onnx/internal/cut/tensor_types.h"
#include "frontend/onnx/internal/file/external_data.h"

namespace rannc::frontend {

/// The model from which stages are cut.
struct CutModel {
  const ModelParts& parts;
  const CutGraph& graph;
  const TensorTypes& types;
  ExternalData& external;
};

/// Writes a stage to `to` and its external tensors to `<to>.data`. Returns whether there are any. See `cut_stages` for
/// the errors.
Result<bool> write_stage_file(const CutModel& model, const StageParts& stage, const std::filesystem::path& to);

}  // namespace rannc::frontend
