/// What a person reads of a plan.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "partition/model/plan_model.h"
#include "tools/compile/stage_report.h"

namespace rannc::tools {

/// A line per block: atoms, work, parameters, what it receives and sends.
std::string print_blocks(const partition::PlannedModel& planned);
/// A line per stage, then the predicted step; then, at `report.prices`, this plan beside its bound, one device and data
/// parallelism: the only numbers that may be compared with each other, as nothing but the plan itself is measured.
std::string summary_text(const partition::PlannedModel& planned, const SearchReport& report);
/// The same for scripts, with objective, lower bound and gap as `stage_plan_json` has them, at `prices`. `step_ns` is
/// the predicted step, `measured` whether that is of stages measured side by side. Where it is not,
/// `step_lower_bound_ns` is what no plan of the model can beat at `prices`, whatever its blocks.
nlohmann::ordered_json summary_json(const partition::PlannedModel& planned, const SearchReport& report);
/// Bottleneck, what bounds it, the runners-up and why each lost, what would help.
/// Plans anew under each remedy, so it takes as long as planning a few times more.
/// `options` are those of the plan. After a search that was stopped no remedies are tried.
std::string explain(const partition::PlannedModel& planned, const partition::PlanOptions& options,
                    const SearchReport& report);

}  // namespace rannc::tools
