/// Sums the losses of a mini-batch over devices and processes.
#pragma once

#include <vector>

#include "runtime/execute/pipeline.h"
#include "runtime/train/batch.h"
#include "runtime/train/internal/device_set.h"
#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Returns the denominator per loss term; 0 if another process computes the term or its labels are missing.
Result<std::vector<double>> denominators(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices,
                                         const EvaluationBatch& bound);

/// Sums numerators per device and then over devices, as a run of several processes does. Empty if a process has no
/// labels. Every worker of the run must call it.
Result<std::vector<LossSum>> sum_losses(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices,
                                        const std::vector<StepOutcome>& outcomes,
                                        const std::vector<double>& denominators, bool labelled, uint64_t step);

}  // namespace rannc::runtime
