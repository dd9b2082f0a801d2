/// Work of a stream that was recorded to run again.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "runtime/device/plugin.h"

namespace rannc::testing {

/// The calls that streams enqueued while a recording was on. Each call runs during the recording as well, because the
/// sizes of its results may be needed; the memory that it overwrites is restored at the end.
class Recording final : public runtime::RecordedWork {
 public:
  /// Runs `work` and records what the current stream enqueues, and streams that wait for an event of it.
  /// Replays of one pool must not overlap, as they use the same memory on other devices.
  static std::unique_ptr<Recording> of(const std::function<void()>& work, uint64_t pool);

  /// Keeps the bytes of the storages of `written`, which a call will overwrite.
  void save(const std::vector<at::Tensor>& written);
  /// Keeps bytes of device memory that will be overwritten.
  void save_bytes(const void* device_address, size_t bytes);
  void add(std::function<void()> call) { calls_.push_back(std::move(call)); }
  void replay() override;

 private:
  struct Saved {
    void* shadow;
    std::vector<char> bytes;
  };
  void restore();

  std::vector<std::function<void()>> calls_;
  const void* pool_ = nullptr;  ///< device memory that stands for that of the pool
  std::set<std::pair<const void*, size_t>> known_;
  std::vector<Saved> saved_;        ///< in the order of the calls
  std::vector<c10::Storage> kept_;  ///< so that no memory of them is used again while recording
};

}  // namespace rannc::testing
