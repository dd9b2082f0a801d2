/// Threshold for sparse gradients of tables, which contain only the rows that were looked up.
#pragma once

#include <cstdint>

namespace rannc::ir {

/// Minimum table size in bytes for sparse gradients: zero-filling smaller tables is cheap. The runtime and the planner
/// both use it.
inline constexpr int64_t kRowGradientTableBytes = int64_t{1} << 20;

}  // namespace rannc::ir
