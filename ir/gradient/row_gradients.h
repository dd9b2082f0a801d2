/// Which gradients of tables come as the rows that were looked up.
#pragma once

#include <cstdint>

namespace rannc::ir {

/// Of tables from so many bytes on: smaller ones are filled with zeros in no time. The runtime does so, and plans count
/// on it.
inline constexpr int64_t kRowGradientTableBytes = int64_t{1} << 20;

}  // namespace rannc::ir
