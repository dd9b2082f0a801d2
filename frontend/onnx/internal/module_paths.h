/// Says which module of the exported model a node belongs to.
#pragma once

#include <span>
#include <string>

#include "frontend/onnx/import.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// `bert.encoder.layer.0` of a node: from the scopes in its metadata (torch.onnx.export with dynamo=True), or from a
/// name that is a path (`/bert/encoder/layer.0/Add`, dynamo=False). The node's name where neither knows one.
std::string module_path(const ONNX_NAMESPACE::NodeProto& node);

/// Notes `module`, or the node's own where that is empty, as a reader of each float operand that is stored, or is a
/// stored one renamed by Identity. Such a renaming reads nothing.
void note_readers(const ir::Graph& graph, std::span<const ValueId> operands, const ONNX_NAMESPACE::NodeProto& node,
                  const std::string& module, ImportNotes& notes);

}  // namespace rannc::frontend
