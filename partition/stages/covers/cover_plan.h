/// Converts the result of a cover search into a plan or a reason.
#pragma once

#include <vector>

#include "partition/stages/covers/cover.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Numbers of stages that constraints, blocks and devices allow.
StageCount stage_count(const StageProblem& problem);

/// Returns the plan of `cover`, which uses `devices` devices and is replicated `copies` times. Objective and bound stay
/// unset.
StagePlan plan_of_cover(const StageProblem& problem, const RangeCosts& ranges, const Cover& cover,
                        uint64_t micro_batches, uint32_t devices, uint32_t copies);

/// Explains why no finder has a cover: the memory that would suffice, or that no memory would.
Infeasible explain_infeasible(const StageProblem& problem, const std::vector<CoverFinder*>& finders, StageCount count);

/// Returns a sentence about the slowest stage.
std::string bottleneck_of(const StagePlan& plan);

/// Bytes of the parameters of a stage, of their gradients and of their optimizer state.
struct TrainedPart {
  double parameters = 0, gradients = 0, states = 0;
};

/// Time of a ring all-reduce of the stage's gradients over its devices; if the problem is sharded, of a reduce-scatter
/// of the gradients and an all-gather of the parameters.
double stage_all_reduce_ns(const StageProblem& problem, const TrainedPart& stage, const std::vector<DeviceId>& devices);

/// Time of the optimizer step on the slowest of the stage's devices: reads the gradient, reads and writes parameters
/// and states; of a share, if the problem is sharded.
double optimizer_ns(const StageProblem& problem, const TrainedPart& stage, const std::vector<DeviceId>& devices);

}  // namespace rannc::partition
