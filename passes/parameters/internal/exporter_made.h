/// Reports stored tensors of which a file without a list of its state does not say whether they are trained.
#pragma once

#include <map>
#include <set>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "passes/parameters/internal/computed_copies.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Stored tensors that are buffers though they stand where weights stand: factors that serve weights alone
/// (`untrained_factors.h`), which is a remark, and a row of zeros that is added to the last result and that no layer
/// owns, which is a warning. Not of files that list their state, nor what a user says the kind of (`asked`).
std::set<ValueId> untrained_state(const ir::Graph& graph, const ir::StoredNotes& file,
                                  const std::map<ValueId, ir::ValueKind>& asked, PassContext& context);

/// Tensors that are trained though the exporter computed them from what the file does not have, where it lists no
/// state. Weights of plain layers, which it turns and joins, are not among them. Kinds must have been decided.
std::set<std::string> stand_ins(const ir::Graph& graph, const ir::StoredNotes& file);

/// Says which tensors the tracing exporter computed, and what became of them. Weights of plain layers, which it turns
/// and joins, are not among them. Kinds must have been decided.
void report_made(const ir::Graph& graph, const ir::StoredNotes& file, const ComputedCopies& copies,
                 PassContext& context);

}  // namespace rannc::passes
