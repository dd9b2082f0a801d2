/// Numbers that models without inputs give.
#pragma once

#include <string_view>
#include <vector>

namespace rannc::test {

/// The elements of one output of a model without inputs, written in ONNX's text syntax; a test failure, and none, where
/// it is not imported or not computed.
std::vector<double> numbers_of(std::string_view graph, int opset, size_t output = 0);

}  // namespace rannc::test
