/// Planning options as the compiler completes them.
#pragma once

#include <memory>

#include "partition/model/plan_options.h"
#include "passes/training/cut_functions.h"
#include "passes/training/differentiate.h"

namespace rannc::test {

/// Adds the joint graph of the model that will be planned, and the cut of stages into functions.
inline partition::PlanOptions with_passes(const ir::Graph& graph, partition::PlanOptions options) {
  passes::StageBorder border;
  border.device = options.cluster.kind_of(DeviceId(0)).type;
  options.joint = std::make_shared<const ir::Joint>(passes::differentiate(graph, border).value());
  options.cut_functions = [](ir::Plan& plan) { return passes::cut_functions(plan); };
  return options;
}

}  // namespace rannc::test
