/// Steps that several searches for a model's plan share.
#pragma once

#include <vector>

#include "partition/metrics.h"
#include "partition/model/atom_dag.h"
#include "partition/model/model_facts.h"
#include "partition/model/plan_model.h"
#include "partition/model/plan_options.h"
#include "partition/model/sharded_stages.h"

namespace rannc::partition {

/// Returns the options of planner `auto` with the schedules that the plan may have.
AutoOptions search_of(const PlanOptions& options);

/// Returns the sample counts at which blocks are cut and their memory is limited.
AtomSamples atom_samples(const PlanOptions& options);

/// Returns the problem of choosing stages of the blocks. `memory`: limits by kind of device.
Result<StageProblem> problem_of(const PlanOptions& options, const ModelFacts& facts, const BlockPartition& blocks,
                                const KindMemory& memory);

/// A kind of devices, one of which exceeds its memory in a finished plan.
struct Overfull {
  size_t kind = 0;
  double needed = 0, offered = 0;  ///< bytes, of the device that exceeds it most
  double excess() const { return needed / offered; }
};

/// Returns the kinds with such a device. Empty: the plan fits.
std::vector<Overfull> overfull(const ir::Plan& plan, const PlanOptions& options);

/// Completes a plan whose stages are chosen, simulates it, and adds its alternatives.
Result<void> finish(const PlanOptions& options, const ModelFacts& facts, PlannedModel& planned);

}  // namespace rannc::partition
