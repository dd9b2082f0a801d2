/// Restores zero biases of linear tasks and convolutions that an exporter omitted.
#pragma once

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// A bias of zeros adds nothing, so exporters drop it and it would never be trained. If a node's call reads one
/// (`StoredNotes::dropped_biases`), its task gets a stored tensor of that name, of zeros. Nodes that read the same bias
/// share it. Returns the number of tensors added. Linear.
size_t restore_biases(ir::Graph& graph, const ir::StoredNotes& file);

}  // namespace rannc::passes
