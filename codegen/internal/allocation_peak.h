/// Follows the bytes that one thread's tensors keep allocated, and their peak.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>

namespace rannc::codegen {

/// Counts from its construction to its end; one at a time per thread. What was allocated before and is freed meanwhile
/// counts as negative.
class AllocationPeak {
 public:
  AllocationPeak() : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  double live_bytes() const { return static_cast<double>(counter_->live); }
  /// Since construction or the last `restart`.
  double peak_bytes() const { return static_cast<double>(counter_->peak); }
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

}  // namespace rannc::codegen
