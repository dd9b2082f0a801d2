/// Checkpoints: folders that hold a training run by the model's own names, so that any plan of the model can go on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/constant.h"
#include "ir/plan/plan.h"
#include "runtime/execute/value.h"
#include "runtime/train/optimizer.h"

namespace rannc::runtime {

/// What a run trains with.
struct TrainingSettings {
  OptimizerOptions optimizer;
  double clip_norm = 0;  ///< as in `TrainerOptions`
  uint64_t seed = 0;
  bool operator==(const TrainingSettings&) const = default;
};

/// Where a run stands.
struct CheckpointState {
  uint64_t step = 0;  ///< steps done
  TrainingSettings settings;
  std::string model_digest;  ///< of the plan's model
  std::string data_state;    ///< of the caller
};

/// Tensors of a run by key: `parameter/<name>`, `buffer/<name>`, `optimizer/<state>/<name>`.
using CheckpointTensors = std::map<std::string, Value>;

/// A checkpoint is written by one or more devices into `<folder>.partial`, each a file of its own, and becomes visible
/// by one rename when all are done. Nothing is left of a failed one but what the next attempt overwrites.
Result<void> write_checkpoint_part(const std::string& folder, uint32_t device, const CheckpointTensors& tensors);
/// Writes the manifest over the parts of `devices` and renames; an older checkpoint of that name is replaced.
Result<void> finish_checkpoint(const std::string& folder, const std::vector<uint32_t>& devices,
                               const CheckpointState& state);
/// Removes what `write_checkpoint_part` left of a checkpoint that will not be finished.
void discard_checkpoint(const std::string& folder);

Result<CheckpointState> read_checkpoint_state(const std::string& folder);
/// An error where the checkpoint is of another model than the plan.
Result<void> check_model(const CheckpointState& state, const std::string& folder, const ir::Plan& plan);
/// All tensors of a checkpoint by key, their bytes left where they are.
Result<std::map<std::string, ir::StoredTensor>> checkpoint_tensors(const std::string& folder);
/// Copies the checkpoint's bytes into `into`, matched by key. All keys are looked up and compared in type and shape
/// before the first byte is written.
Result<void> read_checkpoint(const std::string& folder, const CheckpointTensors& into);

/// The complete checkpoint `<parent>/step-<n>` with the largest n, or empty where there is none.
std::string latest_checkpoint(const std::string& parent);

}  // namespace rannc::runtime
