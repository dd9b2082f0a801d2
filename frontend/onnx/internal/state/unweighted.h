/// Finds the ones and zeros that an exporter stores for a normalization without weights.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/model/traced_call.h"
#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Whether an operand is such numbers. ONNX's normalizations require a scale, and InstanceNormalization a bias. If a
/// module has none, torch.onnx.export with dynamo=True creates initializers of ones and zeros, which look like
/// untrained weights. The call in a node's metadata has `None` for them.
bool is_unweighted(const ir::Graph& graph, ValueId operand, size_t place, const TracedCall& call);

/// Such operands of all nodes of a model.
class Unweighted {
 public:
  /// Reads the operands of one node and the call that it was created from.
  void read(const ir::Graph& graph, std::span<const ValueId> operands, const std::optional<TracedCall>& call);
  /// Marks such constants of the graph as literals unless another node reads them: they may be merged with a weight.
  void note(const ir::Graph& graph, ImportNotes& notes) const;

 private:
  struct Reads {
    uint32_t all = 0, unweighted = 0;
  };
  std::vector<Reads> reads_;  ///< by value
};

}  // namespace rannc::frontend
