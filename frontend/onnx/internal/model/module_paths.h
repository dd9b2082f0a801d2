/// Determines which module of the exported model a node belongs to.
#pragma once

#include <string>

#include "ir/state/training_notes.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// Returns a node's module (`bert.encoder.layer.0`) from the scopes in its metadata (torch.onnx.export with
/// dynamo=True) or from a name that is a path (`/bert/encoder/layer.0/Add`, dynamo=False). Returns the node's name if
/// neither contains a module.
std::string module_path(const ONNX_NAMESPACE::NodeProto& node);

/// Records under `name` the module of the node (`module` unless that is empty), with its enclosing modules as far as
/// the node's metadata or name contain them.
void note_module(const ONNX_NAMESPACE::NodeProto& node, const std::string& name, const std::string& module,
                 ir::TrainingNotes& notes);

}  // namespace rannc::frontend
