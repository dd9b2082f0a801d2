/// Memory of the test devices, which the host cannot touch.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/test_device/streams.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::testing {

/// Allocator of `at::kPrivateUse1`. The pages are mapped twice. Tensors hold addresses of a mapping without rights, so
/// that a kernel of the host crashes at the first byte. `shadow` has the same bytes for the backend's own work.
///
/// A block belongs to the current stream of its allocation and is used again only by allocations of that stream. It
/// does so at once, as the work that freed it precedes theirs on the stream. An allocation counts as a write by its
/// stream: another stream has to wait for it. Memory that a recording allocates belongs to no stream. It is used again
/// by recordings alone, when the host has waited for its work.
class DeviceMemory final : public c10::DeviceAllocator {
 public:
  static DeviceMemory& instance();

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;

  bool initialized() override { return true; }
  /// Returns pages of free blocks to the system.
  void emptyCache(c10::MempoolId_t pool) override;
  /// The block is used again only after the work that `stream` has at its release.
  void recordStream(const c10::DataPtr& memory, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;

  /// The address where the backend finds the byte that a tensor has at `device_address`.
  void* shadow(const void* device_address) const;
  bool contains(const void* address) const;
  c10::DeviceIndex device_of(const void* device_address) const;

  /// The accesses to the block of `device_address`; null if there is no such block. `device_mutex()` must be held.
  AccessLog* log(const void* device_address);
  /// Removes the accesses of a recording.
  void forget(const Recording* recording);

 private:
  struct Block {
    size_t bytes = 0, requested = 0;
    size_t segment = 0;     ///< its first offset
    StreamIndex owner = 0;  ///< a stream, or the recordings of a device
    c10::DeviceIndex device = 0;
    bool used = false;
    AccessLog log;
    std::vector<c10::Stream> recorded;
  };
  using Blocks = std::map<size_t, Block>;  ///< by offset
  struct Waiting {
    size_t offset;
    Clock until;
  };

  DeviceMemory();
  void release(void* device_address);
  void put_back(Blocks::iterator block);
  void put_back_finished(StreamIndex owner, const Clock& clock);
  Blocks::iterator take(c10::DeviceIndex device, StreamIndex owner, size_t bytes);
  void add_segment(c10::DeviceIndex device, StreamIndex owner, size_t bytes);
  Blocks::iterator block_of(const void* device_address);

  char* device_view_ = nullptr;
  char* shadow_view_ = nullptr;
  int file_ = -1;
  Blocks blocks_;
  std::map<StreamIndex, std::set<std::pair<size_t, size_t>>> free_;  ///< bytes and offset, by owner
  std::vector<Waiting> waiting_;
  std::array<size_t, kTestDevices> end_{};  ///< of segments, from a device's first byte
  std::array<c10::CachingDeviceAllocator::DeviceStats, kTestDevices> stats_;
};

}  // namespace rannc::testing
