/// Measures the parts of planning.
#pragma once

#include <cstdint>
#include <ctime>

namespace rannc::partition {

/// Measures CPU time of the process since its last call.
class Lap {
 public:
  double seconds() {
    const std::clock_t now = std::clock();
    const double passed = static_cast<double>(now - last_) / CLOCKS_PER_SEC;
    last_ = now;
    return passed;
  }
  int64_t ns() { return static_cast<int64_t>(seconds() * 1e9); }

 private:
  std::clock_t last_ = std::clock();
};

}  // namespace rannc::partition
