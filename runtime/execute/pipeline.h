/// What executors need of a plan: shape, lowered schedule, and which port each route and parameter group touches.
#pragma once

#include <vector>

#include "ir/plan/plan.h"
#include "ir/schedule/schedule.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Ports that a route of the shape connects.
struct RoutePorts {
  uint32_t output = 0;  ///< of the producer's signature
  uint32_t input = 0;   ///< of the consumer's signature
};

/// A loss term: where its numerator comes out.
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
};

/// The pipeline of a plan that verifies and whose schedule is lowered.
Pipeline make_pipeline(const ir::Plan& plan);

/// The forward passes of `pipeline` alone, in the order of its rows, over at most as many samples as its mini-batch:
/// its number of micro-batches or, where there are fewer samples, as many. The schedule verifies (rules S).
Result<Pipeline> forward_pipeline(const Pipeline& pipeline, uint32_t samples);

}  // namespace rannc::runtime
