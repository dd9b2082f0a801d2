/// Which operands of ONNX operators decide what a model is, and which are data.
#pragma once

#include <cstddef>
#include <string_view>

namespace rannc::test {

/// Whether an operand says sizes, axes, bounds of places, a trip count or a condition: exporters write such operands as
/// constants, where everything else is fed.
bool decides_structure(std::string_view op, size_t operand);

}  // namespace rannc::test
