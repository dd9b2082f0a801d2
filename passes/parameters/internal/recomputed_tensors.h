/// Restores computations that an exporter did ahead of a run.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "passes/evaluator.h"

namespace rannc::passes {

/// In an optimised export, a weight that is used directly and through `normalize`, `abs` or a slice is two stored
/// tensors. If trained separately they would diverge. The exporter records the origin of each tensor. If the file has
/// everything it was computed from, the numbers determine how (`internal/formula_search.h`), and tasks then compute the
/// tensor, under its name. If the file lacks the only parameter that several tensors were computed from, those that
/// follow from the largest are computed from that one. Others that share numbers with it stay open.
struct Recomputed {
  std::set<std::string> made;  ///< stored tensors that tasks compute now
  /// Tensors computed from parameters that the file has, or from one that others were computed from, in a way that was
  /// not determined.
  struct Open {
    std::string made;
    std::vector<std::string> sources;  ///< parameters, or the others, that the file has
  };
  std::vector<Open> open;
};

/// `kept`: names of tensors that stay as they are. Cost: some thousand small operators per tensor.
Recomputed recompute(ir::Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept,
                     const Evaluator* evaluator);

}  // namespace rannc::passes
