/// Restores parameters of which an exporter stores only a function that has an inverse.
#pragma once

#include <set>
#include <string>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// An optimized export has `exp(logit_scale)` in place of the parameter. Trained as it is, it would take other steps.
/// If the names of the tensor and of what it was computed from show `exp`, `neg`, `softplus` or two of them, the
/// parameter is stored again, under its name; `recompute` then adds the tasks that compute the tensor. Returns the
/// names of the parameters. Tensors of names in `kept` stay as they are. Linear.
std::set<std::string> restore_sources(ir::Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept);

}  // namespace rannc::passes
