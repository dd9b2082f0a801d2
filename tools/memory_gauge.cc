#include "tools/memory_gauge.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <memory>

namespace rannc::tools {

namespace {

std::atomic<uint64_t> live{0}, peak{0};

void grow(uint64_t bytes) {
  const uint64_t now = live.fetch_add(bytes) + bytes;
  uint64_t most = peak.load();
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
}

struct Counted {
  c10::DataPtr data;
  uint64_t bytes = 0;
};

void release(void* counted) {
  const std::unique_ptr<Counted> owned(static_cast<Counted*>(counted));
  live.fetch_sub(owned->bytes);
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& source) : source_(source) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto counted = std::make_unique<Counted>(Counted{source_.allocate(bytes), bytes});
    grow(bytes);
    void* data = counted->data.get();
    return {data, counted.release(), &release, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { source_.copy_data(to, from, bytes); }

 private:
  c10::Allocator& source_;
};

}  // namespace

void MemoryGauge::install() {
  // LibTorch takes allocators by plain pointer and keeps them as long as the process lives.
  static CountingAllocator allocator(*c10::GetCPUAllocator());
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

uint64_t MemoryGauge::live_bytes() { return live.load(); }
uint64_t MemoryGauge::peak_bytes() { return peak.load(); }
void MemoryGauge::restart() { peak.store(live.load()); }

}  // namespace rannc::tools
