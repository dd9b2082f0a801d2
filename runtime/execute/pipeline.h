/// A plan in the form that executors use: shape, lowered schedule, and the ports of each route and parameter group.
#pragma once

#include <optional>
#include <vector>

#include "ir/plan/optimizer_shares.h"
#include "ir/plan/parameter_updates.h"
#include "ir/plan/plan.h"
#include "ir/schedule/schedule.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Ports that a route of the shape connects.
struct RoutePorts {
  uint32_t output = 0;  ///< of the producer's signature
  uint32_t input = 0;   ///< of the consumer's signature
};

/// The stage and output port that compute the numerator of a loss term.
struct LossPort {
  StageId stage;
  uint32_t output = 0;
};

/// Immutable facts shared by all devices of a run. `schedule` is lowered.
struct Pipeline {
  ir::PipelineShape shape;
  ir::Schedule schedule;
  std::string batch_symbol;
  std::vector<Signature> stages;
  std::vector<RoutePorts> routes;  ///< parallel to `shape.routes`
  /// Per group of `shape.shared`, per stage of the group: index into that stage's `parameters`.
  std::vector<std::vector<uint32_t>> shared;
  std::vector<LossPort> losses;        ///< per loss term of the graph
  std::vector<ValueId> graph_outputs;  ///< in the graph's order
  std::vector<ValueId> sums;           ///< those of them that metrics read; kept in training too
  /// By stage: the parameters whose gradients replicas sum together. Those of the plan; of a stage without any, one for
  /// each parameter that belongs to no group.
  std::vector<std::vector<ir::ParameterBucket>> buckets;
  /// By stage: the slices of its parameters that each replica updates. Empty if the stage is not sharded.
  std::vector<ir::OptimizerShares> shares;
};

/// Returns the pipeline of a verified plan with a lowered schedule. `updates`: of the plan's graph; they decide where
/// shares may cut.
Pipeline make_pipeline(const ir::Plan& plan, const ir::ParameterUpdates& updates);
/// The same with the updates of the plan's own optimizer.
Pipeline make_pipeline(const ir::Plan& plan);

/// Returns the share of a stage's parameters that a device updates; nothing if the stage is not sharded.
std::optional<std::vector<ir::ParameterSlice>> share_of(const Pipeline& pipeline, StageId stage, DeviceId device);

/// Returns a pipeline of only the forward passes, in row order, over `samples` samples (at most a mini-batch). The
/// number of micro-batches is that of `pipeline`, or `samples` if that is smaller. The schedule verifies (rules S).
Result<Pipeline> forward_pipeline(const Pipeline& pipeline, uint32_t samples);

}  // namespace rannc::runtime
