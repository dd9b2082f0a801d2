/// Checkpoints: folders that store a training run under the model's names, so that any plan of the model can resume it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/constant.h"
#include "ir/plan/plan.h"
#include "runtime/execute/value.h"
#include "runtime/train/loss_scale.h"
#include "runtime/train/optimizer.h"

namespace rannc::runtime {

/// Settings of a run that a resumed one keeps.
struct TrainingSettings {
  OptimizerOptions optimizer;
  double clip_norm = 0;  ///< as in `TrainerOptions`
  uint64_t seed = 0;
  uint64_t kept_checkpoints = 0;  ///< as in `TrainerOptions`
  bool operator==(const TrainingSettings&) const = default;
};

/// Progress and settings of a run.
struct CheckpointState {
  uint64_t step = 0;     ///< completed steps
  uint64_t updates = 0;  ///< steps whose gradients were applied: all, unless a loss scale overflowed
  LossScale loss_scale;  ///< meaningful only for models that need one
  TrainingSettings settings;
  std::string model_digest;  ///< of the plan's model
  std::string data_state;    ///< opaque data of the caller
  bool sliced = false;       ///< the optimizer state of some stage is stored in slices
};

/// Tensors of a run by key: `parameter/<name>`, `buffer/<name>`, `optimizer/<state>/<name>`, and slices of optimizer
/// states.
using CheckpointTensors = std::map<std::string, Value>;

/// Returns the key of elements [first, last) of a tensor in memory order, which a device stores as a tensor of rank 1:
/// `slice/<first>-<last>/<key>`.
std::string slice_key(const std::string& key, int64_t first, int64_t last);
/// Whether it is the key of an optimizer state or of a slice of one.
bool is_optimizer_key(std::string_view key);
/// Whether that state is the average of a parameter.
bool is_average_key(std::string_view key);

/// `<folder>.partial`, in which a checkpoint is assembled.
std::string partial_checkpoint(const std::string& folder);
/// Writes one device's file of a checkpoint to `<folder>.partial`. The checkpoint becomes visible by one rename when
/// all devices are done. `before_flush` is called when the tensors have been read.
Result<void> write_checkpoint_part(const std::string& folder, uint32_t device, const CheckpointTensors& tensors,
                                   const std::function<void()>& before_flush = {});
/// Writes the manifest for the parts of `devices` and renames the folder. Replaces an older checkpoint of that name.
/// Parts of devices on other hosts may be absent: the manifest is the same on all hosts.
Result<void> finish_checkpoint(const std::string& folder, const std::vector<uint32_t>& devices,
                               const CheckpointState& state);
/// Removes `<folder>.partial`: the parts of a checkpoint that will not be finished.
void discard_checkpoint(const std::string& folder);

Result<CheckpointState> read_checkpoint_state(const std::string& folder);
/// Returns an error if the checkpoint belongs to a different model than the plan.
Result<void> check_model(const CheckpointState& state, const std::string& folder, const ir::Plan& plan);
/// A tensor of a checkpoint, whose bytes stay on disk.
struct CheckpointEntry {
  std::string key;
  ir::ValueType type;
  ir::TensorData data;
  std::string digest;  ///< of the bytes; older formats have none

  /// The bytes. If they differ from the digest, an error names the file and the tensor.
  Result<std::vector<std::byte>> read() const;
};
/// Returns all tensors of a checkpoint by key, slices under their own. The folder must have the parts of all devices.
Result<std::map<std::string, CheckpointEntry>> checkpoint_tensors(const std::string& folder);
/// Copies the checkpoint's tensors into `into`, matched by key. A tensor or slice is assembled from the checkpoint's
/// slices if it is not stored as it is. Keys, types, shapes and the cover of slices are checked before anything is
/// written, and the bytes of each tensor that is read are compared with their digest: after an error about that, the
/// tensors have no defined content. Parts that have none of these tensors may be absent.
Result<void> read_checkpoint(const std::string& folder, const CheckpointTensors& into);

/// Returns n of the name `step-<n>` of a checkpoint.
std::optional<uint64_t> step_of_checkpoint(std::string_view name);
/// Returns the complete checkpoint `<parent>/step-<n>` with the largest n, or an empty string if there is none.
std::string latest_checkpoint(const std::string& parent);
/// Returns what is wrong with the checkpoints `<parent>/step-<n>` that `latest_checkpoint` passes over although they
/// are newer than the one it returns: they lack a manifest, without which no checkpoint gets its name.
std::vector<Diagnostic> newer_damaged_checkpoints(const std::string& parent);

/// Removes checkpoints that are older than `folder`, a complete checkpoint `<parent>/step-<n>`, so that at most the
/// `kept` newest are left, including `folder` itself. 0 keeps all. Does nothing for other names. Before anything is
/// removed, `folder` is flushed to disk. A checkpoint loses its name before its files, so an interruption leaves no
/// incomplete one; the next call removes the rest.
Result<void> remove_older_checkpoints(const std::string& folder, uint64_t kept);

}  // namespace rannc::runtime
