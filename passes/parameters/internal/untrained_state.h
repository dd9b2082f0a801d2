/// Finds stored tensors of files without a list of state whose places do not show whether they are trained.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// Tensors that are buffers although they are in the place of weights.
struct UntrainedState {
  std::set<ValueId> factors;  ///< only weights use them (`untrained_factors.h`)
  std::set<ValueId> unowned;  ///< rows of zeros that are added to the last result and that no layer owns
};

/// Empty for files that list their state. Omits tensors whose kind the user specified (`requested`).
UntrainedState untrained_state(const ir::Graph& graph, const ir::StoredNotes& file,
                               const std::map<ValueId, ir::ValueKind>& requested);

/// Returns groups of trained factors with synthetic names and like sizes that one module reads. They are weights of its
/// own, or one parameter as it is and computed on: nothing in the file tells which. Kinds must have been decided.
std::vector<std::set<std::string>> doubtful_factors(const ir::Graph& graph, const ir::StoredNotes& file);

}  // namespace rannc::passes
