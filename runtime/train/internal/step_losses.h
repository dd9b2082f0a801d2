/// Sums the losses of a mini-batch over devices and processes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/execute/pipeline.h"
#include "runtime/train/batch.h"
#include "runtime/train/internal/device_set.h"
#include "runtime/train/needed_samples.h"
#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Returns what a process with these devices needs: `inputs`, and those that determine sizes other than the number of
/// samples.
NeededSamples find_needed_samples(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices,
                                  std::set<std::string> inputs);

/// Whose labels a process has: those of the mini-batch, or those of the samples that its devices compute.
enum class Labels : uint8_t { kAll, kOwn };

/// Returns the denominator per loss term of a whole mini-batch; 0 if another process computes the term. Labels are
/// counted replica by replica, so that sums of floats have the same bits whoever has the labels. With `kOwn`, every
/// worker of the run must call it.
Result<std::vector<double>> sum_denominators(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices,
                                             Feed& labels, Labels whose, uint64_t step);

/// Returns the denominator per loss term of an evaluation; 0 if another process computes the term or its labels are
/// missing.
Result<std::vector<double>> denominators(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices,
                                         const EvaluationBatch& bound);

/// Sums numerators per device and then over devices, as a run of several processes does. Empty if a process has no
/// labels. Every worker of the run must call it.
Result<std::vector<LossSum>> sum_losses(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices,
                                        const std::vector<StepOutcome>& outcomes,
                                        const std::vector<double>& denominators, bool labelled, uint64_t step);

}  // namespace rannc::runtime
