/// Finds kernels of a plan that its hardware does not have.
#pragma once

#include "ir/plan/plan.h"
#include "runtime/device/device.h"

namespace rannc::runtime {

/// Checks that all tasks of a stage, of its functions where there are any, have kernels on a device. [B8]
/// Nothing is checked on hardware of the type that the plan is for.
Result<void> check_kernels(const ir::Plan& plan, StageId stage, const Device& device);

}  // namespace rannc::runtime
