/// Follows the bytes that one thread's tensors keep allocated, and their peak.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>

namespace rannc::runtime {

/// Adds what this thread allocates for tensors from its construction to its end and subtracts what it frees, be it from
/// before: then the count may be negative. One at a time per thread.
class AllocationMeter {
 public:
  AllocationMeter() : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  int64_t live_bytes() const { return counter_->live; }
  /// Since construction or the last `restart`.
  int64_t peak_bytes() const { return counter_->peak; }
  void restart() { counter_->peak = counter_->live; }

 private:
  struct Counter final : c10::MemoryReportingInfoBase {
    int64_t live = 0, peak = 0;
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
      live += size;
      peak = std::max(peak, live);
    }
    bool memoryProfilingEnabled() const override { return true; }
  };
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace rannc::runtime
