/// Says which module of the exported model a node belongs to.
#pragma once

#include <string>

#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// `bert.encoder.layer.0` of a node: from the scopes in its metadata (torch.onnx.export with dynamo=True), or from a
/// name that is a path (`/bert/encoder/layer.0/Add`, dynamo=False). The node's name where neither knows one.
std::string module_path(const ONNX_NAMESPACE::NodeProto& node);

}  // namespace rannc::frontend
