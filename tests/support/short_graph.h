/// Graphs in short.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::test {

/// A graph from lines
/// ```
/// input x [batch,3,8] samples 0
/// parameter w [8]
/// constant half [] 0.5
/// constant mask bool [2,2] 1 0 1 1
/// y = mul(x, half)
/// m = mean(y) {axes=[-1], keepdim=true}
/// outputs y m
/// ```
/// in the syntax of text IR for shapes and attributes. Floats without an element type are of `dtype`; types of results
/// follow from the rules of types. A fault in the text fails a check.
ir::Graph short_graph(const std::string& text, std::string_view dtype = "f64");

/// Short names of the operators, in order.
std::vector<std::string> operators(const ir::Graph& graph);

}  // namespace rannc::test
