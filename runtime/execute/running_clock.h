/// Time that this process ran.
#pragma once

#include <algorithm>
#include <chrono>

namespace rannc::runtime {

/// Counts time for limits on others: a pause of this very process (Ctrl-Z, a machine asleep) counts as one tick, so
/// that nobody else is blamed for it. Whoever waits looks at it at least every `kTick`. Not thread-safe.
class RunningClock {
 public:
  static constexpr std::chrono::milliseconds kTick{50};

  /// Since construction.
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
