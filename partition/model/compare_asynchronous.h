/// Compares a plan with asynchronous pipelines of the same stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "partition/cluster.h"

namespace rannc::partition {

/// A pipeline over the stages of a plan, in its steady state.
struct PipelineChoice {
  std::string name;  ///< `1f1b`, `PipeDream`, `PipeDream-2BW`
  /// Time per mini-batch, with everything that is done once per update. Of the plan's own schedule: the predicted step.
  double mini_batch_ns = 0;
  uint32_t updates = 0;                   ///< per mini-batch
  uint32_t staleness = 0;                 ///< largest number of updates that a gradient does not know of
  std::vector<uint32_t> weight_versions;  ///< by stage
  uint64_t peak_bytes = 0;                ///< of the device that holds most, with all versions
};

/// The plan itself, then those asynchronous pipelines that its stages allow:
/// - PipeDream (SOSP 2019): an update after every micro-batch; a stage keeps the weights of each micro-batch in flight.
/// - PipeDream-2BW (arXiv 2006.09503): an update after every mini-batch, with two versions of the weights. It needs at
///   least as many micro-batches as stages.
///
/// They have no bubble, but their gradients are of older weights, so their numbers are not those of one device. rannc
/// never runs them. Times and memory are simulated with the plan's prices. Errors: a plan without training, of one
/// stage, with several stages on a device, or with a parameter that several stages read.
Result<std::vector<PipelineChoice>> compare_asynchronous(const ir::Plan& plan, const Cluster& cluster);

}  // namespace rannc::partition
