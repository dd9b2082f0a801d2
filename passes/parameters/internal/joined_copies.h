/// Finds parameters whose numbers an exporter also stored as a part of a larger tensor.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Parameters of which one holds the other.
struct JoinedCopy {
  std::string whole, part;
  bool transposed = false;  ///< the part lies in the whole with its two axes swapped
  bool operator==(const JoinedCopy&) const = default;
};

/// Parameters of made-up names, each with a smaller one of the same rank and type whose numbers lie in it side by side
/// along one axis: what is left of `cat([words.weight.t(), rest])` when an exporter carries it out. A part with fewer
/// than eight different numbers shows nothing. Reads the bytes of parameters whose shapes fit, each about once.
std::vector<JoinedCopy> joined_copies(const ir::Graph& graph);

}  // namespace rannc::passes
