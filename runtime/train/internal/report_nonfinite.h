/// Examines what a training step leaves.
#pragma once

#include "ir/plan/plan.h"
#include "runtime/engine/nonfinite_observer.h"
#include "runtime/train/internal/device_set.h"

namespace rannc::runtime {

/// Reports gradients, parameters, buffers and optimizer states of a device that are not finite after a step. Runs on
/// the device's thread.
void report_nonfinite(TrainedDevice& device, const ir::Plan& plan, uint64_t step, NonfiniteObserver& observer);

}  // namespace rannc::runtime
