/// Builds the input of stage planners from a model's blocks.
#pragma once

#include "partition/metrics.h"
#include "partition/model/model_facts.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// Fills every field of a stage problem that follows from the model: times, bytes, crossing values. The caller adds
/// cluster, mini-batch and demands. For inference, parameters count as buffers: held once, never reduced.
Result<StageProblem> stage_problem(const ModelFacts& model, const BlockPartition& blocks);

}  // namespace rannc::partition
