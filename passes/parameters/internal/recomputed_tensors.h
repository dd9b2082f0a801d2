/// Puts computations back that an exporter did ahead of a run.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"
#include "passes/evaluator.h"
#include "passes/parameters/internal/tensor_origins.h"

namespace rannc::passes {

/// A weight that is used as it is and through `normalize`, `abs` or a slice is two stored tensors of an optimised
/// export: trained apart they would drift. The exporter records what each tensor was made of, and where all of that is
/// in the file the numbers tell how (`internal/formula_search.h`): tasks then make the tensor, under its name.
struct Recomputed {
  std::set<std::string> made;  ///< stored tensors that tasks make now
  /// Tensors of which a parameter is in the file too, but how they were made was not found out.
  struct Open {
    std::string made;
    std::vector<std::string> sources;  ///< parameters that the file has
  };
  std::vector<Open> open;
};

/// `kept`: names of tensors that stay as they are. Cost: some thousand small operators a tensor.
Recomputed recompute(ir::Graph& graph, const ir::StoredNotes& file, const MadeOf& made_of,
                     const std::set<std::string>& kept, const Evaluator* evaluator);

}  // namespace rannc::passes
