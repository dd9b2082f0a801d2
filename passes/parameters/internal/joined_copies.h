/// Finds parameters that an exporter also stored as part of a larger tensor.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// A parameter that contains another one.
struct JoinedCopy {
  std::string whole, part;
  bool transposed = false;  ///< the whole contains the part with its two axes swapped
  bool operator==(const JoinedCopy&) const = default;
};

/// Returns parameters with generated names, each with a smaller one of the same rank and type that it contains
/// contiguously along one axis. An exporter that evaluates `cat([words.weight.t(), rest])` creates such pairs. A part
/// with fewer than eight different numbers is no evidence. Reads the bytes of parameters whose shapes fit, each about
/// once.
std::vector<JoinedCopy> joined_copies(const ir::Graph& graph);

}  // namespace rannc::passes
