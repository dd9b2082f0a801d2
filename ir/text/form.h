/// Text of a model without its weights.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"

namespace rannc::ir {

/// The text of a graph without locations and without the numbers of stored floats, except those for whose names
/// `is_number` holds, and of values that nothing reads: equal for two exports of one program with other weights. An
/// error if a file cannot be read.
Result<std::string> print_form(const Graph& graph, const std::function<bool(std::string_view)>& is_number);

}  // namespace rannc::ir
