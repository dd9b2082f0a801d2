/// Sizes that a model computes in floats: `int(height * 1.5)`.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::frontend {

struct Fraction {
  int64_t above = 0, below = 1;
  double value() const { return static_cast<double>(above) / static_cast<double>(below); }
};

/// What a number in single precision, within 2^-20 and 2^20, stands for: the simplest fraction that rounds to it, as
/// 17 / 10 does to 1.7f. With the number as it stands 17 / 1.7 would lie short of 10, which its author did not mean.
Fraction simplest_fraction(double number);

/// The elements of an integer value of rank 0 or 1 that follow from sizes and constants by arithmetic in floats,
/// rounded on the way. Nothing where they do not, or where more than some hundred tasks would have to be read.
std::optional<ir::Contents> sizes_through_floats(const ir::Graph& graph, ValueId value);
/// The same of a value of floats, cut to integers.
std::optional<ir::Contents> floats_cut_to_sizes(const ir::Graph& graph, ValueId value);

}  // namespace rannc::frontend
