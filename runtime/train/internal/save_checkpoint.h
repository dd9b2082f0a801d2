/// Writes a checkpoint of the devices of a run.
#pragma once

#include <string>

#include "runtime/train/checkpoint.h"
#include "runtime/train/internal/device_set.h"

namespace rannc::runtime {

/// Every process writes the parts of its devices. Collective. Processes that share `folder` finish one checkpoint
/// there; those of another host finish one of their own. An error in any process discards the checkpoint in all of
/// them. Older checkpoints are removed, as the settings request, when all processes have finished this one.
Result<void> save_checkpoint(DeviceSet& devices, const std::string& folder, const CheckpointState& state);

}  // namespace rannc::runtime
