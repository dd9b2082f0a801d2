/// From a cover to a plan, and from no cover to a reason.
#pragma once

#include <vector>

#include "partition/stages/covers/cover.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Stage counts that the constraints, blocks and devices leave.
StageCount stage_count(const StageProblem& problem);

/// The plan of `cover`, which lies on `devices` devices and is repeated `copies` times; objective and bound stay unset.
StagePlan plan_of_cover(const StageProblem& problem, const RangeCosts& ranges, const Cover& cover,
                        uint64_t micro_batches, uint32_t devices, uint32_t copies);

/// Why none of the finders has a cover: the memory that would suffice, or that no memory would.
Infeasible explain_infeasible(const StageProblem& problem, const std::vector<CoverFinder*>& finders, StageCount count);

/// Names the slowest stage in a sentence.
std::string bottleneck_of(const StagePlan& plan);

/// Ring all-reduce of the stage's gradients over its devices.
double stage_all_reduce_ns(const StageProblem& problem, double bytes, const std::vector<DeviceId>& devices);

/// The optimizer's pass over the stage's parameters on its slowest device: reads the gradient, reads and writes
/// parameters and states.
double optimizer_ns(const StageProblem& problem, double parameter_bytes, double gradient_bytes,
                    const std::vector<DeviceId>& devices);

}  // namespace rannc::partition
