/// Page-locked memory of the host, which streams read and write while the host goes on.
#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <vector>

#include "tests/support/test_device/streams.h"

namespace rannc::testing {

/// Allocator of pinned memory for the test devices. A block is used again only when the host knows that the streams
/// are done with it.
///
/// A copy between pinned memory and a device that the host doesn't wait for is made visible as late as allowed:
/// - Bytes copied to pinned memory arrive when the host waits for the stream. Until then every byte is 0xff.
/// - Bytes that a stream reads are compared when the host waits. The host changed them too early if they differ.
class PinnedMemory final : public at::HostAllocator {
 public:
  static PinnedMemory& instance();

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  bool record_event(void* address, void* context, c10::Stream stream) override;
  void empty_cache() override;
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool contains(const void* address);
  /// The accesses to the block of `address`; null if that is not pinned. `device_mutex()` must be held.
  AccessLog* log(const void* address);

  /// A work item reads `from`, which the host must not change until then. `from` must have no gaps.
  void read_later(const at::Tensor& from, StreamIndex stream, uint64_t tick);
  /// A work item writes the numbers of `staged` to `to`.
  void write_later(const at::Tensor& to, const at::Tensor& staged, StreamIndex stream, uint64_t tick);
  /// Makes bytes arrive that `tensor` has pending; for work that is ordered after their copy.
  void arrive(const at::Tensor& tensor);
  /// The host waited for all work that `host` covers.
  void host_reached(const Clock& host);

 private:
  struct Block {
    size_t bytes = 0;
    bool used = false;  ///< by the host
    AccessLog log;
  };
  /// What happens to bytes when the host waits for a work item.
  struct Pending {
    uint64_t begin = 0, end = 0;
    StreamIndex stream = 0;
    uint64_t tick = 0;
    std::function<void()> settle;
  };

  void release(void* address);
  std::map<uint64_t, Block>::iterator block_of(const void* address);
  void settle_where(const std::function<bool(const Pending&)>& chosen);

  std::map<uint64_t, Block> blocks_;  ///< by address
  std::vector<Pending> pending_;
};

}  // namespace rannc::testing
