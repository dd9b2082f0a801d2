/// Recovers sizes that a model computes in floats: `int(height * 1.5)`.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::frontend {

struct Fraction {
  int64_t above = 0, below = 1;
  double value() const { return static_cast<double>(above) / static_cast<double>(below); }
};

/// Returns the simplest fraction that rounds to a single-precision number between 2^-20 and 2^20: 17/10 for 1.7f. With
/// the exact value of 1.7f, 17 / 1.7 would be less than 10, which its author did not intend.
Fraction simplest_fraction(double number);

/// Returns the elements of an integer value of rank 0 or 1 that follow from sizes and constants by float arithmetic
/// with intermediate rounding. Returns nothing if they do not, or if more than a few hundred tasks would be read.
std::optional<ir::Contents> sizes_through_floats(const ir::Graph& graph, ValueId value);
/// Likewise for a float value that is truncated to integers.
std::optional<ir::Contents> floats_cut_to_sizes(const ir::Graph& graph, ValueId value);

}  // namespace rannc::frontend
