/// Finds labels outside their classes, and indices outside their tables, before a step.
#pragma once

#include <optional>
#include <string>

#include "runtime/train/batch.h"

namespace rannc::runtime {

/// An element of an input that no class or row has.
struct IndexFault {
  std::string input;    ///< the graph input that holds it
  std::string message;  ///< `holds 7 in sample 3, but the classes are 0 to 4`
};

/// The first element of the batch that a cross entropy cannot take for a class, or a look-up for a place. Ignored
/// labels and indices that count from the end are as the model's tasks define them: what integer tasks make of the
/// inputs is computed here, by the rules that fold constants. Inputs that are not in the batch are not judged, nor is
/// what floats decide, or more than a million computed elements. `bindings`: of all symbols, the samples in the batch
/// included.
std::optional<IndexFault> find_index_fault(const ir::Graph& graph, const Batch& batch, const ir::Bindings& bindings);

}  // namespace rannc::runtime
