/// What a person reads of a plan.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "partition/model/plan_model.h"
#include "tools/stage_report.h"

namespace rannc::tools {

/// A line per block: atoms, work, parameters, what it receives and sends.
std::string print_blocks(const partition::PlannedModel& planned);
/// A line per stage, then the predicted step beside one device and data parallelism.
std::string summary_text(const partition::PlannedModel& planned);
/// The same for scripts, with objective, lower bound and gap as `stage_plan_json` has them. `step_ns` is the predicted
/// step of the whole plan, `step_lower_bound_ns` what no plan of the model can beat.
nlohmann::ordered_json summary_json(const partition::PlannedModel& planned, const SearchReport& report);
/// Bottleneck, what bounds it, the runners-up and why each lost, what would help.
/// Plans anew under each remedy, so it takes as long as planning a few times more.
/// `options` are those of the plan. After a search that was stopped no remedies are tried.
std::string explain(const partition::PlannedModel& planned, const partition::PlanOptions& options,
                    const SearchReport& report);

}  // namespace rannc::tools
