#include "runtime/train/internal/save_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "runtime/internal/reason.h"
#include "runtime/internal/torch_value.h"

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
    if (!file) return error({.file = path.string()}, std::string("cannot be written: ") + std::strerror(errno));
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
Result<uint64_t> random_number(DeviceSet& devices) {
  const int64_t own = devices.contains(DeviceId(0)) ? static_cast<int64_t>(std::random_device()()) : 0;
  RANNC_ASSIGN(const at::Tensor sum, devices.sum_over_processes(at::full({1}, own, at::kLong)));
  return static_cast<uint64_t>(sum.item<int64_t>());
}

/// The tensors of a device in host memory.
CheckpointTensors host_tensors(const TrainedDevice& device) {
  CheckpointTensors tensors = checkpoint_tensors(device);
  for (auto& [key, value] : tensors) {
    at::Tensor tensor = on_host(value);
    // The next step commits buffers before its optimizer could wait.
    if (key.starts_with("buffer/")) tensor = tensor.clone();
    value = to_value(std::move(tensor));
  }
  return tensors;
}

}  // namespace

/// The file of one device and the thread that writes it.
struct CheckpointSave::Part {
  Part(const std::string& folder, const TrainedDevice& device, uint64_t step)
      : id(device.id),
        progress(device.transport->progress()),
        tensors(host_tensors(device)),
        thread([this, folder, step] { write(folder, step); }) {}
  ~Part() {
    if (thread.joinable()) thread.join();
  }

  void write(const std::string& folder, uint64_t step) {
    if (progress != nullptr)
      progress->begin(Progress::Lane::kCheckpoint, {"writing the checkpoint", step, {}, kFileLimits});
    try {
      result =
          write_checkpoint_part(folder, id.index(), tensors, [this] { is_read.test_and_set(), is_read.notify_all(); });
    } catch (const std::exception& failure) {
      result = error(reason_of(failure));
    }
    is_read.test_and_set(), is_read.notify_all();
    is_written.test_and_set();
    if (progress != nullptr) progress->rest(Progress::Lane::kCheckpoint);
  }

  DeviceId id;
  Progress* progress;  // may be null
  CheckpointTensors tensors;
  Result<void> result;
  std::atomic_flag is_read, is_written;
  std::thread thread;  // last: it uses the others
};

CheckpointSave::CheckpointSave(DeviceSet& devices, std::string folder, const CheckpointState& state, uint64_t number)
    : devices_(devices), folder_(std::move(folder)), state_(state), number_(number) {}

CheckpointSave::~CheckpointSave() {
  if (finished_) return;
  parts_.clear();
  discard_checkpoint(folder_);
}

Result<std::unique_ptr<CheckpointSave>> CheckpointSave::start(DeviceSet& devices, const std::string& folder,
                                                              const CheckpointState& state) {
  discard_checkpoint(folder);  // what an interrupted run left; nobody writes until all have drawn the number
  RANNC_ASSIGN(const uint64_t number, random_number(devices));
  std::unique_ptr<CheckpointSave> save(new CheckpointSave(devices, folder, state, number));
  for (const auto& device : devices.all()) save->parts_.push_back(std::make_unique<Part>(folder, *device, state.step));
  return save;
}

void CheckpointSave::await_read(DeviceId device) const {
  for (const auto& part : parts_) {
    if (part->id == device) part->is_read.wait(false);
  }
}

bool CheckpointSave::is_written() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->is_written.test(); });
}

Result<void> CheckpointSave::finish() {
  const SharedFolder shared(folder_, number_);
  Progress* const progress = devices_.all()[0]->transport->progress();
  Result<void> written;
  begin_work(progress, {"waiting for the checkpoint to be written", state_.step, {}, kFileLimits});
  for (const auto& part : parts_) {
    part->thread.join();
    if (written.ok()) written = part->result;
  }
  finished_ = true;
  begin_work(progress, {"finishing the checkpoint", state_.step, {}, kFileLimits});
  const DeviceId own = devices_.all()[0]->id;
  if (written.ok()) written = shared.mark(own);
  written = devices_.first_failure(written);
  if (!written.ok()) {
    discard_checkpoint(folder_);
    return written;
  }
  const std::vector<DeviceId> seen = shared.marked(devices_.plan_devices());
  RANNC_TRY(devices_.all_agree(true));  // all have looked before the marks go
  const bool finishes = seen.front() == own;
  Result<void> finished;
  if (finishes) {
    shared.remove_marks(seen);
    finished = finish_checkpoint(folder_, all_parts(devices_), state_);
    if (!finished.ok()) discard_checkpoint(folder_);
  }
  RANNC_TRY(devices_.first_failure(finished));
  const Result<void> removed =
      finishes ? remove_older_checkpoints(folder_, state_.settings.kept_checkpoints) : Result<void>();
  if (!removed.ok() && !devices_.whole()) return devices_.close(removed.diagnostic());
  return removed;
}

}  // namespace rannc::runtime
