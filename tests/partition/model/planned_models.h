/// Takes models of the zoo to plans, without their weights.
#pragma once

#include <string>
#include <variant>

#include "partition/model/plan_model.h"
#include "tests/frontend/zoo/support.h"

namespace rannc::test {

/// A model after the passes, ready to be planned.
struct Prepared {
  ir::Graph graph;
  ir::Atoms atoms;

  /// Elements of all values of a kind.
  uint64_t elements(ir::ValueKind kind) const;
};

/// Written without weights, read back, through the standard passes; `loss` in the spelling of `parse_losses`.
Prepared prepared(const Build& build, const std::string& loss);

/// Four layers of width 64.
Prepared small_bert();

/// Analytic costs, Adam, planner `rannc`, on a preset cluster.
partition::PlanOptions options_for(const std::string& cluster, uint32_t mini_batch);

/// The plan, which verifies; a failure where there is none.
partition::PlannedModel planned(const Prepared& model, const partition::PlanOptions& options);
/// Why there is no plan; a failure where there is one.
partition::Infeasible refused(const Prepared& model, const partition::PlanOptions& options);

/// Largest predicted peak of a device.
uint64_t fullest(const ir::Plan& plan);

}  // namespace rannc::test
