/// Formats and explains plans.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "partition/cluster.h"
#include "partition/model/plan_model.h"
#include "tools/compile/stage_report.h"
#include "tools/compiler/named_tasks.h"

namespace rannc::tools {

/// Returns a line per block: atoms, work, parameters, received and sent values.
std::string print_blocks(const partition::PlannedModel& planned);
/// Returns a line per stage and the predicted step. Then compares, at `report.prices`, this plan with its bound, with
/// one device and with data parallelism. Only these numbers are comparable, since only the plan itself is measured.
std::string summary_text(const partition::PlannedModel& planned, const SearchReport& report);
/// Returns the same for scripts, with objective, lower bound and gap of `stage_plan_json` at `prices`. `step_ns` is the
/// predicted step; `measured` tells whether it comes from stages that were measured side by side. If so,
/// `searched_step_ns` is the same step at `prices`. `step_lower_bound_ns` is a lower bound at `prices` for any plan of
/// the model and any division into blocks.
nlohmann::ordered_json summary_json(const partition::PlannedModel& planned, const SearchReport& report);
/// Describes the bottleneck and its bound, the runners-up with the reason why each lost, and remedies. Plans again for
/// each remedy, so it takes a few times as long as planning. `options` are those of the plan. If the search was
/// stopped, tries no remedies. Blocks are named by their `modules`, as far as these are known.
std::string explain(const partition::PlannedModel& planned, const partition::PlanOptions& options,
                    const SearchReport& report, const NodeModules& modules);

/// Returns a table of the plan beside asynchronous pipelines of its stages (`compare_asynchronous`).
Result<std::string> asynchronous_text(const ir::Plan& plan, const partition::Cluster& cluster);

}  // namespace rannc::tools
