/// Recognises numbers that count samples, labels or weights of a mini-batch.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace rannc::passes {

/// What divides by `value`: a term without a numerator, whose weight and denominator are 1 / value. Recognised are
///   - a size, as of a shape: a multiple of the number of samples or of the elements of an input, or a part of them;
///   - the sum of an input's elements, however cast;
///   - the number of elements of an input of integers that differ from a number;
///   - the sum of a constant's elements at labels, with or without labels that are ignored;
///   - one of these and a number added to it, and either with a number that it does not fall below.
/// An input's elements may lack some at the ends of axes, as labels that are shifted by one do, and be padded with what
/// does not count. Nothing otherwise.
std::optional<ir::LossTerm> divisor(const ir::Graph& graph, ValueId value);

/// The same of a number of elements that a mean runs over.
std::optional<ir::LossTerm> divisor(const ir::Graph& graph, const ir::Dim& count);

}  // namespace rannc::passes
