/// Cuts an ONNX file into a file per pipeline stage.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// A value that one stage sends to another.
struct SentValue {
  ValueId value;
  StageId from, to;
};

/// The wanted cut: stages of the graph that was imported from the file, after any passes.
struct WantedCut {
  const ir::Graph& graph;
  uint32_t stages = 1;
  std::vector<StageId> stage_of;  ///< per task; invalid for constant tasks
  std::vector<SentValue> sent;
};

/// A value that the plan sends to a stage and the files do not.
struct UnsentValue {
  std::string name;
  bool in_file = false;  ///< whether it is a tensor of the file
};

/// The file of one stage.
struct StageModel {
  std::string file;  ///< `stage0.onnx`; empty if no node of the model belongs to the stage
  std::string data;  ///< `stage0.onnx.data`, with its external tensors; empty if it has none
  std::vector<std::string> inputs, outputs;
  std::vector<UnsentValue> unsent;  ///< to this stage
  std::vector<std::string> added;   ///< tensors that it receives instead, or besides
};

/// Writes `stage<i>.onnx` into an existing folder for each stage. Run in order, with each file's inputs taken by name
/// from the inputs of the model and the outputs of earlier files, the files compute the outputs of the model.
/// - Every node that an output depends on is in one file, unchanged. A node that depends on stored tensors alone is in
///   every file that reads its results. So are stored tensors and functions. Operator sets and metadata are the
///   model's.
/// - A tensor that leaves its stage has the type that the file, or else ONNX's shape inference, gives it.
/// - Nodes are assigned to stages by names: of the tensors that tasks produce, or else of the nodes in the locations of
///   tasks. Where the plan cuts inside a node, or within nodes that passes fused, the cut moves to the nearest tensors
///   of the file (`internal/cut/assign_stages.h`).
/// - External tensors are copied to `stage<i>.onnx.data`.
/// Errors: an invalid file, a sparse initializer, a missing or invalid external file, a tensor of unknown type between
/// stages, a file that cannot be written.
Result<std::vector<StageModel>> cut_stages(const std::filesystem::path& from, const WantedCut& wanted,
                                           const std::filesystem::path& folder);

}  // namespace rannc::frontend
