/// Builds and describes the totals of graphs.
#pragma once

#include <functional>
#include <string>

#include "ir/graph/graph.h"

namespace rannc::testing {

/// Adds a coefficient that counts the elements of an input, or what `each` makes of them, and returns its number.
/// `each` adds integer tasks to the body that it is given. The input has its samples on axis 0.
uint32_t count_elements(ir::Graph& graph, ValueId input,
                        const std::function<ValueId(ir::Graph& body, ValueId elements)>& each = {});
/// The same for the elements that differ from a number.
uint32_t count_others(ir::Graph& graph, ValueId input, int64_t ignored);

/// Adds a sum over samples as an output and its quotient by count 0 as the metric `mean`.
void add_metric(ir::Graph& graph, ValueId sum);

/// A coefficient as an expression of inputs: `add(sum(ne(t, -100)), 2)`. `size(n)` counts n for each sample. Casts,
/// reshapes and stops of gradients are left out; constants of several elements are `[…]`. Empty for none.
std::string coefficient_text(const ir::Graph& graph, const std::optional<uint32_t>& coefficient);

}  // namespace rannc::testing
