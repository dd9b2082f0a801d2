/// Reports stored tensors for which a file without a parameter list leaves open whether they are trained.
#pragma once

#include <map>
#include <set>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "passes/parameters/internal/computed_copies.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Returns stored tensors that are buffers although they are in the place of weights. Factors that only weights use
/// (`untrained_factors.h`) get a remark. A row of zeros that is added to the last result and that no layer owns gets a
/// warning. Skips files that list their state, and tensors whose kind the user specified (`asked`).
std::set<ValueId> untrained_state(const ir::Graph& graph, const ir::StoredNotes& file,
                                  const std::map<ValueId, ir::ValueKind>& asked, PassContext& context);

/// Returns tensors that are trained although the exporter computed them from tensors that the file lacks, in files that
/// list no state. Weights of plain layers, which it permutes and concatenates, are not included. Kinds must have been
/// decided.
std::set<std::string> stand_ins(const ir::Graph& graph, const ir::StoredNotes& file);

/// Reports which tensors the tracing exporter computed, and how they are handled. Weights of plain layers, which it
/// permutes and concatenates, are not included. Kinds must have been decided.
void report_made(const ir::Graph& graph, const ir::StoredNotes& file, const std::vector<ComputedCopy>& copies,
                 PassContext& context);

}  // namespace rannc::passes
