/// Inserts dropouts after values.
#pragma once

#include <map>
#include <optional>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::passes {

/// Returns the dropout probability of a value that is the product of a value and a random input of kind bernoulli;
/// nullopt for any other value.
std::optional<double> dropped_share(const ir::Graph& graph, ValueId value);

/// Returns the result of the dropout that is the only reader of a value; without one, the value itself.
ValueId dropped_value(const ir::Graph& graph, ValueId value);

/// Returns a copy of the graph with a dropout after each of these values, which tasks make: `y = y.whole *
/// y.random`. The key of the random input follows from y's name and differs from all other keys. A value that
/// already is a dropout gets a random input with the new probability and the old key. It is an error if a value cannot
/// be multiplied.
Result<ir::Graph> with_dropouts(const ir::Graph& graph, const std::map<ValueId, double>& shares);

}  // namespace rannc::passes
