/// Determines the parts of a model that each stage's file contains.
#pragma once

#include <cstdint>
#include <vector>

#include "frontend/onnx/internal/cut/cut_graph.h"

namespace rannc::frontend {

/// The content of one stage's file, by numbers of a `CutGraph`.
struct StageParts {
  std::vector<uint32_t> nodes;         ///< in an order in which they can run
  std::vector<uint32_t> initializers;  ///< parts, ascending
  std::vector<bool> functions;         ///< by part
  std::vector<uint32_t> inputs;        ///< tensors: inputs of the model in its order, then received ones
  std::vector<uint32_t> received;      ///< tensors of earlier stages, ascending
  std::vector<uint32_t> outputs;       ///< tensors: sent ones, then outputs of the model in its order
};

/// Returns the parts of each of `stages` stages. An output of the model that depends on no input belongs to the first
/// stage that has nodes.
std::vector<StageParts> stage_parts(const CutGraph& graph, const std::vector<uint32_t>& stage_of, uint32_t stages,
                                    size_t functions);

}  // namespace rannc::frontend
