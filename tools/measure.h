/// Measures a model's tasks on this machine for the planner.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "partition/cost/cost_model.h"
#include "partition/model/plan_model.h"

namespace rannc::tools {

/// What names this machine's measurements in a profile database: processor, library and its version, threads.
std::string environment_name();

/// Runs every structurally different task of the graph, forward and backward, at several micro-batch sizes, one thread,
/// and returns the prices. `step` hears `measuring 3 of 41`. Links of the cluster are taken as described.
Result<std::shared_ptr<const partition::CostModel>> measure_model(const ir::Graph& graph,
                                                                  const partition::PlanOptions& plan,
                                                                  const std::function<void(const std::string&)>& step);

}  // namespace rannc::tools
