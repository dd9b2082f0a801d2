/// Puts dropouts behind values.
#pragma once

#include <map>
#include <optional>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::passes {

/// The share that a value of a graph drops already: it is the product of a value and a draw of kind bernoulli. Nothing:
/// it is none.
std::optional<double> dropped_share(const ir::Graph& graph, ValueId value);

/// The dropout that alone reads a value, else the value: where its elements are dropped.
ValueId dropped_value(const ir::Graph& graph, ValueId value);

/// A copy of the graph in which each of these values, which tasks make, drops its share: `y = y.whole * y.draw`. The
/// draw's key follows from y's name; keys of other draws differ from it. What is a dropout already gets a draw of the
/// new share, under the old key. An error where a value cannot be multiplied.
Result<ir::Graph> with_dropouts(const ir::Graph& graph, const std::map<ValueId, double>& shares);

}  // namespace rannc::passes
