/// Chooses sizes for planning that neither the user nor the model specifies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::tools {

/// Preferred extents of axes, by what their symbol's name and the types of inputs suggest.
struct PreferredSizes {
  int64_t sequence = 128, image = 224, other = 64;
};

struct PlanningSizes {
  ir::Bindings sizes;                ///< of all symbols of inputs except the batch symbol
  std::vector<std::string> guessed;  ///< those that `given` lacks, in alphabetical order
};

/// Completes `given`. Chooses the preferred sizes, or else the nearest ones, smaller before larger, for which
/// - the graph's assumptions hold,
/// - every extent of the graph is at least 1, or at least 0 if it may be 0 for large sizes,
/// - indices that follow from sizes, such as positions, are rows of their tables (`ir/op/interval.h`).
/// Searches one symbol at a time and then pairs of them, so conditions on three or more symbols may stay unsatisfied.
/// The error then names the first condition that fails.
Result<PlanningSizes> planning_sizes(const ir::Graph& graph, const ir::Bindings& given,
                                     const PreferredSizes& preferred = {});

/// Describes guessed sizes with the flags to choose others; empty if there are none.
std::string describe_guess(const PlanningSizes& sizes);

}  // namespace rannc::tools
