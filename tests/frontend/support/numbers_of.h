/// Graphs computed task by task, as LibTorch computes each.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "ir/constant.h"
#include "ir/graph.h"
#include "tests/frontend/support/node_cases.h"

namespace rannc::test {

using Values = std::map<uint32_t, ir::StoredTensor>;

/// Every value of a graph without symbols, by its index; a diagnostic where a task cannot be evaluated by itself.
Result<Values> evaluate(const ir::Graph& graph, const std::vector<NamedTensor>& inputs);

/// The elements of one output of a model without inputs, written in ONNX's text syntax; a test failure, and none, where
/// it is not imported or not computed.
std::vector<double> numbers_of(std::string_view graph, int opset, size_t output = 0);

}  // namespace rannc::test
