/// Restores the gradient stops where the exported program detached a value.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/model/traced_call.h"
#include "frontend/onnx/internal/translate/scope.h"
#include "ir/graph/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// `detach` has no node in ONNX: readers of its result read the detached value, and only their metadata name it
/// (`args = (%detach, %b)`). One object serves one graph, whose nodes must be passed in order.
class Detached {
 public:
  /// Inserts `core.stop_gradient` before the detached operand of a node. If that operand cannot be determined, adds it
  /// to `ImportNotes::open`.
  Result<void> stop(ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call, const Place& where,
                    std::vector<ValueId>& operands, ImportNotes& notes);

 private:
  std::unordered_map<std::string, size_t> makers_;  ///< hash of the text of the traced call, by resulting value
};

}  // namespace rannc::frontend
