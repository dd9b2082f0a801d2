/// Reads and writes stage plans as JSON files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// What a plan was made for: hex digests of the profile's text and of the cluster; empty: unknown.
struct StagePlanOrigin {
  std::string profile_digest, cluster_digest;
  bool operator==(const StagePlanOrigin&) const = default;
};

/// A plan as it is in a file.
struct SavedStagePlan {
  StagePlan plan;
  StagePlanOrigin origin;  ///< empty in files of older versions
};

/// Returns a JSON object over several lines, equal for equal plans. With `block_names`, each stage also lists the names
/// of its blocks, which are ignored on reading.
std::string write_stage_plan(const StagePlan& plan, const std::vector<std::string>& block_names = {},
                             const StagePlanOrigin& origin = {});

/// Reads the output of `write_stage_plan` back as an equal plan. Errors name a field that is missing, has the wrong
/// type or is out of range, or an unknown version. `verify_plan` checks the plan against a problem.
Result<SavedStagePlan> read_stage_plan(std::string_view text, const std::string& file);

}  // namespace rannc::partition
