/// Reads the list of state tensors of an exported program.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Signature of the program, which torch.onnx.export with dynamo=True writes into the graph's metadata.
struct ListedState {
  /// Kinds by initializer name. Buffers and constants are constants.
  std::map<std::string, ir::ValueKind> kinds;
  std::set<std::string> transient;  ///< constants, and buffers that `state_dict` omits
  /// Initializer names by their names in calls: `p_encoder_weight` is `encoder.weight`.
  std::map<std::string, std::string, std::less<>> targets;
  std::set<std::string, std::less<>> inputs;  ///< the other inputs of the program
  std::vector<std::string> outputs;           ///< its results, by their names in calls
};

/// Returns the signature, empty if there is none.
ListedState listed_state(const ONNX_NAMESPACE::GraphProto& graph);

}  // namespace rannc::frontend
