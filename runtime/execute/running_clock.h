/// A clock that ignores pauses of this process.
#pragma once

#include <algorithm>
#include <chrono>

namespace rannc::runtime {

/// Measures time-outs of waits for other processes. A pause of this process (Ctrl-Z, a suspended machine) counts as at
/// most four ticks, so that no peer times out because of it. Waiters must call `now` at least every `kTick`. Not
/// thread-safe.
class RunningClock {
 public:
  static constexpr std::chrono::milliseconds kTick{50};

  /// Time since construction.
  std::chrono::milliseconds now() {
    const auto current = std::chrono::steady_clock::now();
    total_ += std::min<std::chrono::nanoseconds>(current - last_, 4 * kTick);
    last_ = current;
    return std::chrono::duration_cast<std::chrono::milliseconds>(total_);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::chrono::nanoseconds total_{0};
};

}  // namespace rannc::runtime
