// Records calls, and undoes them.
#include "tests/support/test_device/recording.h"

#include <cstring>
#include <map>
#include <mutex>

#include "tests/support/test_device/device_memory.h"
#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {

namespace {

/// Memory that stands for the pool `pool` of the current device.
const void* memory_of_pool(uint64_t pool) {
  static auto* const pools = new std::map<std::pair<c10::DeviceIndex, uint64_t>, c10::DataPtr>;
  const std::lock_guard lock(device_mutex());
  c10::DataPtr& memory = (*pools)[{current_device(), pool}];
  if (!memory) memory = DeviceMemory::instance().allocate(1);
  return memory.get();
}

/// While it exists, the work of this thread is not counted as the host's.
struct Replaying {
  Replaying() { Streams::replays = true; }
  Replaying(const Replaying&) = delete;
  Replaying& operator=(const Replaying&) = delete;
  ~Replaying() { Streams::replays = false; }
};

}  // namespace

std::unique_ptr<Recording> Recording::of(const std::function<void()>& work, uint64_t pool) {
  auto recording = std::make_unique<Recording>();
  Streams& streams = Streams::instance();
  const c10::Stream stream = current_stream(current_device());
  streams.set_recording(stream, recording.get());
  recording->pool_ = memory_of_pool(pool);
  const auto end = [&] {
    streams.end_recording(recording.get());
    recording->restore();
  };
  try {
    work();
  } catch (...) {
    end();
    throw;
  }
  end();
  return recording;
}

void Recording::save(const std::vector<at::Tensor>& written) {
  for (const at::Tensor& tensor : written) {
    kept_.push_back(tensor.storage());
    save_bytes(tensor.storage().data_ptr().get(), tensor.storage().nbytes());
  }
}

void Recording::save_bytes(const void* device_address, size_t bytes) {
  if (bytes == 0 || !known_.emplace(device_address, bytes).second) return;
  auto* shadow = static_cast<char*>(DeviceMemory::instance().shadow(device_address));
  saved_.push_back({shadow, {shadow, shadow + bytes}});
}

void Recording::restore() {
  for (auto saved = saved_.rbegin(); saved != saved_.rend(); ++saved) {
    std::memcpy(saved->shadow, saved->bytes.data(), saved->bytes.size());
  }
  known_.clear();
  saved_.clear();
  kept_.clear();
}

void Recording::replay() {
  const c10::Stream stream = current_stream(DeviceMemory::instance().device_of(pool_));
  Streams::instance().begin(stream, "the replay of a recording", {{pool_, 1, true}});
  const Replaying now;
  for (const auto& call : calls_) call();
}

}  // namespace rannc::testing
