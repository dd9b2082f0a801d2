/// Counts the bytes that tensors made by one call keep allocated.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>

namespace rannc::runtime {

/// Between construction and `stop`, adds what this thread allocates for tensors and subtracts what it frees: with a
/// tape being recorded, the difference is what the tape and the results hold.
class AllocationMeter {
 public:
  AllocationMeter()
      : counter_(std::make_shared<Counter>()),
        guard_(std::make_unique<c10::DebugInfoGuard>(c10::DebugInfoKind::PROFILER_STATE, counter_)) {}
  uint64_t stop() {
    guard_.reset();
    return static_cast<uint64_t>(std::max<int64_t>(counter_->bytes, 0));
  }

 private:
  struct Counter final : c10::MemoryReportingInfoBase {
    int64_t bytes = 0;
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override { bytes += size; }
    bool memoryProfilingEnabled() const override { return true; }
  };
  std::shared_ptr<Counter> counter_;
  std::unique_ptr<c10::DebugInfoGuard> guard_;
};

}  // namespace rannc::runtime
