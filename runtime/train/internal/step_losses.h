/// Sums the losses of a mini-batch over devices and processes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/aten/totals.h"
#include "runtime/data/batch.h"
#include "runtime/data/needed_samples.h"
#include "runtime/execute/pipeline.h"
#include "runtime/train/internal/device_set.h"
#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Returns what a process with these devices needs: `inputs`, and those that determine sizes other than the number of
/// samples.
NeededSamples find_needed_samples(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices,
                                  std::set<std::string> inputs);

/// Whose labels a process has: those of the mini-batch, or those of the samples that its devices compute.
enum class Labels : uint8_t { kAll, kOwn };

/// The stages that count and that read counts.
struct CountPlaces {
  std::vector<StageId> owners;  ///< by count: the first stage that reads it
  bool shared = false;          ///< whether a stage reads a count of another
};
CountPlaces count_places(const ir::Plan& plan, const Pipeline& pipeline);

/// The samples of a step, of which a process may have a part.
struct CountedSamples {
  Feed& feed;
  const ir::Bindings& symbols;  ///< all but the batch symbol
  uint32_t samples = 0;
  Labels whose = Labels::kAll;
  bool labelled = true;     ///< false: inputs are missing, and nothing is counted
  bool by_replica = false;  ///< count replica by replica of the owner, as in training
};

/// Returns the counts of a mini-batch. Those of other processes are 0 unless a stage of this process reads them.
/// Samples are added up in their order, whoever has them. If counts are shared, or with `kOwn`, every worker of the run
/// must call it.
Result<Tensors> count_samples(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices,
                              const CountPlaces& places, const TotalsRun& totals, const CountedSamples& of);

/// What is added up over devices and processes.
struct StepSums {
  std::vector<double> numerators;  ///< per loss term; empty if a process has no labels
  Tensors counts, sums;            ///< of `ir::Totals`
};

/// Input of one process to the sums of a step.
struct OwnStep {
  bool labelled = true;
  double settings = 0;  ///< a whole number below 2^40, equal in all processes: else the step is an error in all
  uint64_t step = 0;
};

/// Sums numerators and the sums of metrics per device and then over devices, as a run of several processes does.
/// Every worker of the run must call it.
Result<StepSums> sum_step(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices, const CountPlaces& places,
                          const std::vector<StepOutcome>& outcomes, const Tensors& counts, const OwnStep& own);

}  // namespace rannc::runtime
