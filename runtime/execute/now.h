/// The clock of traces.
#pragma once

#include <chrono>
#include <cstdint>

namespace rannc::runtime {

/// Returns the time on the clock of `ActionRecord`, ns.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace rannc::runtime
