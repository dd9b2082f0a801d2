/// Summarizes a plan for users of the compiler library.
#pragma once

#include "partition/model/plan_model.h"
#include "rannc/compiler.h"
#include "tools/compiler/search_report.h"

namespace rannc::tools {

/// Returns the facts of a plan. `search.warnings` are those of the plan alone.
compiler::PlanFacts plan_facts(const partition::PlannedModel& planned, const SearchReport& search);

}  // namespace rannc::tools
