/// Finds one copy of each parameter that a process trains.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/train/internal/device_set.h"

namespace rannc::runtime {

/// A parameter and its location. For a shared or replicated parameter, its representative copy.
struct OwnedParameter {
  ValueId value;
  TrainedDevice* device = nullptr;
  StageId stage;
  uint32_t index = 0;  ///< into the signature's parameters
};

/// Returns the parameters that this process represents, in the order of the graph's values: over all processes of a
/// run, each parameter once.
std::vector<OwnedParameter> owned_parameters(const ir::Plan& plan, const DeviceSet& devices);

/// Returns the gradients divided by `loss_scale`, under the names of the parameters, in host memory.
Result<std::map<std::string, Value>> gradients_of(const std::vector<OwnedParameter>& parameters, DeviceSet& devices,
                                                  double loss_scale);

/// Returns the norm of all gradients of the run. Sums parameter by parameter in graph order, so that the result does
/// not depend on the cut. `observer` may be null. Every worker of the run must call it.
Result<double> gradient_norm(const ir::Plan& plan, const std::vector<OwnedParameter>& parameters, DeviceSet& devices,
                             uint64_t step, Observer* observer);

/// Updates all parameters with their gradients scaled, after `updates` updates. `observer` may be null.
Result<void> update_scaled(DeviceSet& devices, uint64_t updates, double scale, Observer* observer);

}  // namespace rannc::runtime
