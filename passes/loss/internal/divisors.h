/// Recognizes numbers that count samples, labels or weights of a mini-batch.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// Returns the effect of a division by `value`: a term without a numerator, whose weight and denominator are 1 / value.
/// Recognizes
///   - a size, as of a shape: a multiple or a fraction of the number of samples or of an input's elements;
///   - the sum of an input's elements, with any casts;
///   - the number of elements of an integer input that differ from a number;
///   - the sum of a constant's elements at labels, with or without ignored labels;
///   - one of these plus a number, and either with a lower bound.
/// An input may be cut at the ends of axes, like labels that are shifted by one, and padded with elements that do not
/// count. Returns nullopt otherwise.
std::optional<ir::LossTerm> divisor(const ir::Graph& graph, ValueId value);

/// The same for the number of elements of a mean.
std::optional<ir::LossTerm> divisor(const ir::Graph& graph, const ir::Dim& count);

}  // namespace rannc::passes
