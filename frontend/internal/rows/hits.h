/// Finds the rows of a mask that loops over the chosen experts visit.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::frontend {

/// Rows of a mask that have an element other than zero, as loops over the experts that are chosen list them.
struct Hits {
  ValueId mask;  ///< no element is negative
  int64_t axis;  ///< of the rows
  int64_t most;  ///< number of the first rows to which all that can be hit belong
};
/// Nothing if places were not listed for that.
std::optional<Hits> hits_of(const ir::Graph& graph, ValueId places);

}  // namespace rannc::frontend
