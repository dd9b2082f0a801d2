/// The tensors of state that an exported program lists.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "ir/graph/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// The signature of the program, which torch.onnx.export writes into a graph's metadata with dynamo=True.
struct ListedState {
  /// Parameters, and buffers and constants as constants, by the names of the initializers that hold them.
  std::map<std::string, ir::ValueKind> kinds;
  std::set<std::string> transient;  ///< buffers that `state_dict` leaves out, and constants
  /// How calls name them: `p_encoder_weight` is `encoder.weight`.
  std::map<std::string, std::string, std::less<>> targets;
};

/// Empty where there is none.
ListedState listed_state(const ONNX_NAMESPACE::GraphProto& graph);

}  // namespace rannc::frontend
