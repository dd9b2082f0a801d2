/// Finds where the exported program detached a value.
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

/// `detach` has no node in ONNX: who read its result reads what was detached, and only the metadata of the reader name
/// it (`args = (%detach, %b)`). Serves one graph, whose nodes come in order.
class Detached {
 public:
  /// Puts `core.stop_gradient` before the operand of a node of that call that was detached. Where it cannot be told
  /// which one that is, the notes have it among what is open.
  Result<void> stop(ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call, const Place& where,
                    std::vector<ValueId>& operands, ImportNotes& notes);

 private:
  std::unordered_map<std::string, size_t> makers_;  ///< per value made by a traced call, a hash of the call's text
};

}  // namespace rannc::frontend
