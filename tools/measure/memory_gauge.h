/// Measures the memory of this process's tensors and the time to allocate and free it.
#pragma once

#include <cstdint>

namespace rannc::tools {

/// Wraps LibTorch's CPU allocator for the rest of the process.
class MemoryGauge {
 public:
  /// Must be called once per process, before the first tensor is created.
  static void install();
  /// Bytes that are allocated now. Thread-safe.
  static uint64_t live_bytes();
  /// Peak bytes since `restart`. Thread-safe. Never returns 0: a gauge without any allocation is a defect of rannc.
  static uint64_t peak_bytes();
  /// Resets the peak to the bytes that are allocated now.
  static void restart();

  /// While it exists, allocations of the thread that made it are not counted.
  class Uncounted {
   public:
    Uncounted();
    ~Uncounted();
    Uncounted(const Uncounted&) = delete;
    Uncounted& operator=(const Uncounted&) = delete;
  };

  /// Cost of allocating and freeing memory. It excludes the first touch of new pages, which counts for the operators
  /// that write there.
  struct Effort {
    int64_t ns = 0;
    uint64_t allocations = 0, bytes = 0;
  };
  /// Starts or stops counting efforts.
  static void count_efforts(bool counted);
  /// Returns the efforts of this thread that were counted.
  static Effort effort();
};

}  // namespace rannc::tools
