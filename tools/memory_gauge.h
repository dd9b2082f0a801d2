/// Measures what the tensors of this process take.
#pragma once

#include <cstdint>

namespace rannc::tools {

/// Stands between LibTorch and its CPU allocator, for the rest of the process.
class MemoryGauge {
 public:
  /// Before the first tensor is made; once a process.
  static void install();
  /// Bytes allocated now. Any thread.
  static uint64_t live_bytes();
  /// At most since `restart`. Any thread; a gauge that saw nothing is our mistake, never a reading of 0.
  static uint64_t peak_bytes();
  /// The peak starts again at what is allocated now.
  static void restart();
};

}  // namespace rannc::tools
