/// Says which module of the exported model a node belongs to.
#pragma once

#include <string>

#include "ir/state/training_notes.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// `bert.encoder.layer.0` of a node: from the scopes in its metadata (torch.onnx.export with dynamo=True), or from a
/// name that is a path (`/bert/encoder/layer.0/Add`, dynamo=False). The node's name where neither knows one.
std::string module_path(const ONNX_NAMESPACE::NodeProto& node);

/// Notes under `name` which module the node belongs to, `module` where that is not empty, and the modules around it, as
/// far as its metadata or its name know them.
void note_module(const ONNX_NAMESPACE::NodeProto& node, const std::string& name, const std::string& module,
                 ir::TrainingNotes& notes);

}  // namespace rannc::frontend
