/// Finds the ones and zeros that an exporter puts where a normalisation has no weights.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/model/traced_call.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// ONNX's normalisations want a scale, and InstanceNormalization a bias. Where a module has none, torch.onnx.export
/// with dynamo=True makes initializers of ones and zeros, which look like weights that have not been trained yet; the
/// call in a node's metadata says `None` for them.
class Unweighted {
 public:
  /// Looks at the operands of one node, and at the call that it was made from.
  void read(const ir::Graph& graph, std::span<const ValueId> operands, const std::optional<TracedCall>& call);
  /// Makes literals of those of that graph that no other node reads: a weight may have been merged with them.
  void note(const ir::Graph& graph, ImportNotes& notes) const;

 private:
  struct Reads {
    uint32_t all = 0, unweighted = 0;
  };
  std::vector<Reads> reads_;  ///< by value
};

}  // namespace rannc::frontend
