/// Reads tensors as plain numbers, for comparisons and reports.
#pragma once

#include <vector>

#include "runtime/execute/value.h"

namespace rannc::runtime {

/// All elements, row-major, widened to double.
std::vector<double> to_doubles(const Value& value);

}  // namespace rannc::runtime
