/// Reads and writes stage plans as JSON files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// Returns a JSON object over several lines, equal for equal plans. With `block_names`, each stage also lists the names
/// of its blocks, which are ignored on reading.
std::string write_stage_plan(const StagePlan& plan, const std::vector<std::string>& block_names = {});

/// Reads the output of `write_stage_plan` back as an equal plan. Errors name a field that is missing, has the wrong
/// type or is out of range, or an unknown version. `verify_plan` checks the plan against a problem.
Result<StagePlan> read_stage_plan(std::string_view text, const std::string& file);

}  // namespace rannc::partition
