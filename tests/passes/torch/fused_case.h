/// The numbers that graphs and their gradients give.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "tests/support/short_graph.h"

namespace rannc::test {

/// By name, row by row: outputs, and as `d name` the gradients of float leaves by a weighted sum of all outputs.
using Numbers = std::map<std::string, std::vector<double>>;

/// Runs a graph and LibTorch's tape. Leaves without data are drawn, each after its name: floats around 0, integers and
/// bools 0 or 1. A diagnostic where a task cannot run.
Result<Numbers> numbers_of(const ir::Graph& graph, int64_t samples);

/// The largest difference, relative to the largest number of its tensor, at least 1; NaN is equal to NaN. Infinity
/// where names or sizes differ. `only`: of names that begin so.
double difference(const Numbers& a, const Numbers& b, std::string_view only = "");

/// Runs the passes of such names, and checks that what they leave verifies. Empty, or what went wrong.
std::string run_passes(ir::Graph& graph, const std::vector<std::string>& passes);
/// `cse`, `hoist-uniform`, `snap-constants`, all fusions, `cse`, `merge-slices`, `remove-dead`: as the standard
/// pipeline has them.
std::vector<std::string> standard_order();

}  // namespace rannc::test
