/// Numbers of ours beside numbers that were expected.
#pragma once

#include <string>

#include "ir/graph/constant.h"

namespace rannc::test {

/// The first element that differs, in words; empty where none does. ONNX's own tolerance is 1e-3 relative; half
/// precision has 11 bits, bfloat16 8. Integers, truth values and what is infinite or no number are equal or not.
std::string difference(const ir::StoredTensor& ours, const ir::StoredTensor& expected);

}  // namespace rannc::test
