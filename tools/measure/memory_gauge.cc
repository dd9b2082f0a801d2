#include "tools/measure/memory_gauge.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "ir/base/diagnostic.h"
#include "ir/base/stopwatch.h"

namespace rannc::tools {

namespace {

std::atomic<uint64_t> live{0}, peak{0};
std::atomic<bool> counts{false};
thread_local MemoryGauge::Effort of_thread;
thread_local int uncounted = 0;  // number of `Uncounted`

// Adds its lifetime to the counted time.
class Timed {
 public:
  Timed() {
    if (counts.load(std::memory_order_relaxed)) watch_.emplace();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() {
    if (watch_) of_thread.ns += watch_->nanoseconds();
  }
  bool on() const { return watch_.has_value(); }

 private:
  std::optional<Stopwatch> watch_;
};

void grow(uint64_t bytes) {
  const uint64_t now = live.fetch_add(bytes) + bytes;
  uint64_t most = peak.load();
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
}

// LibTorch frees raw allocations by address only. Therefore the size is stored in a header before the data, whose
// length is the alignment of data.
constexpr size_t kHead = std::max<size_t>(c10::gAlignment, 64);
c10::DeleterFnPtr release_source = nullptr;

void release(void* data) {
  if (data == nullptr) return;
  const Timed timed;
  void* const head = static_cast<std::byte*>(data) - kHead;
  uint64_t bytes = 0;
  std::memcpy(&bytes, head, sizeof bytes);
  live.fetch_sub(bytes);
  release_source(head);
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& source) : source_(source) {
    release_source = source.raw_deleter();
    RANNC_CHECK(release_source != nullptr) << "LibTorch's CPU allocator hands out raw memory";
  }

  /// Returns null for 0 bytes, like LibTorch's allocator. oneDNN requires that the context equals the data.
  c10::DataPtr allocate(size_t bytes) override {
    void* data = nullptr;
    if (bytes > 0) {
      const Timed timed;
      if (timed.on()) ++of_thread.allocations, of_thread.bytes += bytes;
      void* const head = source_.raw_allocate(bytes + kHead);
      const uint64_t counted = uncounted > 0 ? 0 : bytes;
      std::memcpy(head, &counted, sizeof counted);
      grow(counted);
      data = static_cast<std::byte*>(head) + kHead;
    }
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { source_.copy_data(to, from, bytes); }

 private:
  c10::Allocator& source_;
};

}  // namespace

void MemoryGauge::install() {
  // LibTorch keeps a plain pointer to the allocator for the lifetime of the process.
  static CountingAllocator allocator(*c10::GetCPUAllocator());
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

MemoryGauge::Uncounted::Uncounted() { ++uncounted; }
MemoryGauge::Uncounted::~Uncounted() { --uncounted; }
uint64_t MemoryGauge::live_bytes() { return live.load(); }
uint64_t MemoryGauge::peak_bytes() {
  const uint64_t bytes = peak.load();
  RANNC_CHECK(bytes > 0) << "the peak was requested, but the gauge recorded no allocation";
  return bytes;
}
void MemoryGauge::restart() { peak.store(live.load()); }
void MemoryGauge::count_efforts(bool counted) { counts.store(counted); }
MemoryGauge::Effort MemoryGauge::effort() { return of_thread; }

}  // namespace rannc::tools
