/// Finds one copy of each parameter that a process trains.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/execute/pipeline.h"
#include "runtime/train/internal/device_set.h"

namespace rannc::runtime {

/// Elements of a parameter and their location. For a shared or replicated parameter, the representative copy; under
/// sharded optimizer state, the copy of the replica that updates them.
struct OwnedParameter {
  ValueId value;
  TrainedDevice* device = nullptr;
  StageId stage;
  ir::ParameterSlice slice;  ///< of the signature's parameters
};

/// Returns the parameters that this process represents, in the order of the graph's values, then of their elements:
/// over all processes of a run, each element once.
std::vector<OwnedParameter> owned_parameters(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices);

/// Returns the gradients divided by `loss_scale`, under the names of the parameters, in host memory. An error names a
/// parameter of which other processes have a part.
Result<std::map<std::string, Value>> gradients_of(const std::vector<OwnedParameter>& parameters, DeviceSet& devices,
                                                  double loss_scale);

/// Returns the norm of all gradients of the run. Sums parameter by parameter in graph order, so that the result does
/// not depend on the cut. The parts of a parameter whose state is sharded are added in the order of devices. `observer`
/// may be null. Every worker of the run must call it.
Result<double> gradient_norm(const ir::Plan& plan, const std::vector<OwnedParameter>& parameters, DeviceSet& devices,
                             Observer* observer);

/// Updates all parameters with their gradients scaled, after `updates` updates, and gathers shares: the S, U and AG of
/// the last step.
struct ScaledUpdate {
  uint64_t updates = 0;
  double scale = 1;
};
Result<void> update_scaled(DeviceSet& devices, const ScaledUpdate& update);

}  // namespace rannc::runtime
