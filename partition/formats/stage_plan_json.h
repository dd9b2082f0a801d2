/// Stage plans as JSON files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// A JSON object over several lines, equal for equal plans. Where there are `block_names`, each stage also lists those
/// of its blocks; nobody reads them back.
std::string write_stage_plan(const StagePlan& plan, const std::vector<std::string>& block_names = {});

/// Reads what `write_stage_plan` writes, to an equal plan. Errors name the field: one that is missing, of another type,
/// out of range, or of a version that is not known. Whether the plan suits a problem is `verify_plan`'s question.
Result<StagePlan> read_stage_plan(std::string_view text, const std::string& file);

}  // namespace rannc::partition
