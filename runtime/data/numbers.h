/// Reads tensors as plain numbers, for comparisons and reports.
#pragma once

#include <vector>

#include "runtime/execute/value.h"

namespace rannc::runtime {

/// Returns all elements in row-major order, widened to double.
std::vector<double> to_doubles(const Value& value);

}  // namespace rannc::runtime
