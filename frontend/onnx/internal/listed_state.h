/// The tensors of state that an exported program lists.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Parameters, and buffers and constants as constants, by the names of the initializers that hold them: from the
/// signature of the program, which torch.onnx.export writes into a graph's metadata with dynamo=True. Empty where there
/// is none.
std::map<std::string, ir::ValueKind> listed_state(const ONNX_NAMESPACE::GraphProto& graph);

}  // namespace rannc::frontend
