/// Writes a checkpoint of the devices of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/train/checkpoint.h"
#include "runtime/train/internal/device_set.h"

namespace rannc::runtime {

/// A checkpoint that threads of its own write, one per device of this process, possibly while the next step runs.
/// Tensors in host memory are not copied, except for buffers, which are small: they must not change until `await_read`
/// has returned. Those of other devices are copied to host memory first.
///
/// Processes that share `folder` finish one checkpoint there; those of another host finish one of their own. An error
/// in any process discards the checkpoint in all of them. Older checkpoints are removed, as the settings request, when
/// all processes have finished this one.
class CheckpointSave {
 public:
  /// Starts to write. Collective. The devices outlive it.
  static Result<std::unique_ptr<CheckpointSave>> start(DeviceSet& devices, const std::string& folder,
                                                       const CheckpointState& state);
  /// Discards the checkpoint unless it was finished.
  ~CheckpointSave();

  /// Waits until parameters and optimizer states of a device of this process may change.
  void await_read(DeviceId device) const;
  /// Whether this process has written its parts, so that `finish` does not wait for its threads.
  bool is_written() const;
  /// Collective.
  Result<void> finish();

 private:
  struct Part;
  CheckpointSave(DeviceSet& devices, std::string folder, const CheckpointState& state, uint64_t number);

  DeviceSet& devices_;
  std::string folder_;
  CheckpointState state_;
  uint64_t number_;  ///< of this save, equal in all processes
  std::vector<std::unique_ptr<Part>> parts_;
  bool finished_ = false;
};

}  // namespace rannc::runtime
