/// Work of a stream, recorded as a CUDA graph.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/device/plugin.h"

namespace rannc::cuda {

/// A private pool of LibTorch's caching allocator, alive while a recording uses it.
class PoolReference;

/// Makes the recordings of one pool number on one device, one at a time.
struct MemoryPool {
  std::mutex recording;
  /// LibTorch refuses to use a pool again that no recording uses, so that a later recording begins a new one.
  std::weak_ptr<PoolReference> current;
};

/// The pools by device and number. Thread-safe.
class MemoryPools {
 public:
  MemoryPool& at(c10::DeviceIndex device, uint64_t number);

 private:
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, uint64_t>, MemoryPool> pools_;
};

/// Records what `work` enqueues on the current stream, which may not be the default stream. Waits for another recording
/// into the same pool. Throws what `work` throws, and `c10::Error` if the work cannot be recorded: it waits for the
/// device, or draws from LibTorch's generators.
std::unique_ptr<runtime::RecordedWork> record_graph(const std::function<void()>& work, MemoryPools& pools,
                                                    uint64_t number);

}  // namespace rannc::cuda
