/// Measures what the tensors of this process take: bytes, and time to get and give them back.
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

  /// What asking for memory and giving it back took. First touches of new pages are no part of it: the operators that
  /// write there have them.
  struct Effort {
    int64_t ns = 0;
    uint64_t allocations = 0, bytes = 0;
  };
  /// From now on efforts are counted, or no more.
  static void count_efforts(bool counted);
  /// Of this thread while they were counted.
  static Effort effort();
};

}  // namespace rannc::tools
