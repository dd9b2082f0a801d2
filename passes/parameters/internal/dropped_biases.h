/// Gives linear tasks and convolutions the biases back that an exporter left out.
#pragma once

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// A bias of zeros adds nothing, and exporters drop it: it would never be trained. Where a node's call reads one
/// (`StoredNotes::dropped_biases`), its task gets a stored tensor of that name, of zeros; nodes that read the same get
/// the same. Returns how many tensors were made. Linear.
size_t restore_biases(ir::Graph& graph, const ir::StoredNotes& file);

}  // namespace rannc::passes
