#include "runtime/train/internal/save_checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace rannc::runtime {

namespace {

namespace fs = std::filesystem;

/// Finds out which processes write to the same folder: each leaves a mark there before all look for marks. Marks carry
/// a random number of this call, so that those of an interrupted run do not count.
class SharedFolder {
 public:
  SharedFolder(const std::string& folder, uint64_t call) : folder_(partial_checkpoint(folder)), call_(call) {}

  Result<void> mark(DeviceId device) const {
    const fs::path path = mark_of(device);
    std::ofstream file(path);
    file.close();
    if (!file) return error({.file = path.string()}, "cannot be written");
    return {};
  }
  /// Returns the devices whose marks are there, ascending.
  std::vector<DeviceId> marked(size_t devices) const {
    std::vector<DeviceId> found;
    std::error_code ignored;
    for (size_t i = 0; i < devices; ++i) {
      if (fs::exists(mark_of(DeviceId::from(i)), ignored)) found.push_back(DeviceId::from(i));
    }
    return found;
  }
  void remove_marks(const std::vector<DeviceId>& devices) const {
    std::error_code ignored;
    for (const DeviceId device : devices) fs::remove(mark_of(device), ignored);
  }

 private:
  fs::path mark_of(DeviceId device) const {
    return fs::path(folder_) / fmt::format(".{:016x}-{}", call_, device.index());
  }

  std::string folder_;
  uint64_t call_;
};

std::vector<uint32_t> all_parts(const DeviceSet& devices) {
  std::vector<uint32_t> parts(devices.plan_devices());
  for (uint32_t i = 0; i < parts.size(); ++i) parts[i] = i;
  return parts;
}

/// Returns a random number that is equal in all processes.
Result<uint64_t> draw_number(DeviceSet& devices, uint64_t step) {
  const int64_t own = devices.contains(DeviceId(0)) ? static_cast<int64_t>(std::random_device()()) : 0;
  RANNC_ASSIGN(const at::Tensor sum, devices.sum_over_processes(at::full({1}, own, at::kLong), step));
  return static_cast<uint64_t>(sum.item<int64_t>());
}

Result<void> write_parts(const DeviceSet& devices, const std::string& folder, const SharedFolder& shared) {
  for (const auto& device : devices.all())
    RANNC_TRY(write_checkpoint_part(folder, device->id.index(), checkpoint_tensors(*device)));
  return shared.mark(devices.all()[0]->id);
}

}  // namespace

Result<void> save_checkpoint(DeviceSet& devices, const std::string& folder, const CheckpointState& state) {
  discard_checkpoint(folder);  // what an interrupted run left; nobody writes until all have drawn the number
  RANNC_ASSIGN(const uint64_t number, draw_number(devices, state.step));
  const SharedFolder shared(folder, number);
  const Result<void> written = write_parts(devices, folder, shared);
  RANNC_ASSIGN(const bool all_written, devices.all_agree(written.ok(), state.step));
  Result<void> finished;
  bool finishes = false;
  if (all_written) {
    const std::vector<DeviceId> seen = shared.marked(devices.plan_devices());
    RANNC_TRY(devices.all_agree(true, state.step));  // all have looked before the marks go
    finishes = seen.front() == devices.all()[0]->id;
    if (finishes) {
      shared.remove_marks(seen);
      finished = finish_checkpoint(folder, all_parts(devices), state);
    }
  } else {
    discard_checkpoint(folder);
  }
  RANNC_ASSIGN(const bool all_finished, devices.all_agree(finished.ok(), state.step));
  RANNC_TRY(written);
  RANNC_TRY(finished);
  if (!all_written || !all_finished)
    return error("the checkpoint was discarded because another worker could not write its part");
  const Result<void> removed =
      finishes ? remove_older_checkpoints(folder, state.settings.kept_checkpoints) : Result<void>();
  if (!removed.ok() && !devices.whole()) return devices.close(removed.diagnostic());
  return removed;
}

}  // namespace rannc::runtime
