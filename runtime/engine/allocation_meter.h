/// Tracks the live and peak bytes of one thread's tensors.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>

namespace rannc::runtime {

/// Counts this thread's tensor allocations minus its frees, from construction to destruction. Freeing older tensors may
/// make the count negative. At most one meter per thread at a time.
class AllocationMeter {
 public:
  AllocationMeter() : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  int64_t live_bytes() const { return counter_->live; }
  /// Peak since construction or the last `restart`.
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
