/// Plans PipeDream's text profiles for `rannc-compile`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "partition/formats/pipedream_text.h"
#include "partition/formats/stage_plan_json.h"
#include "partition/stages/planner.h"
#include "tools/compiler/requested_plan.h"

namespace rannc::tools {

/// A profile and the constraints on its plan.
struct ProfileRequest {
  std::string file;                       ///< for messages and for the number of samples in its name (`pbs-N`)
  std::optional<uint64_t> profile_batch;  ///< samples at which it was measured; empty: from the name, or 1
  RequestedPlan plan;
};

/// Input to the planners, derived from a profile.
struct ProfileTask {
  partition::PipedreamProfile profile;
  std::string digest;  ///< of the profile's text
  std::vector<uint32_t> node_of_block;
  std::vector<std::string> block_names;  ///< `node7 Conv2d_2_1`
  partition::StageProblem problem;
  std::vector<std::string> warnings;  ///< the graph is not connected
};

/// Reads a profile and sets up its problem. Blocks are its nodes except `Input*`. Pins and similar constraints name
/// nodes by `node7` or by their description. Errors name the file.
Result<ProfileTask> read_profile_task(std::string_view text, const ProfileRequest& request);

/// Plans the profile. If the planner does not simulate, the plan is simulated under the requested schedule.
Result<partition::StageOutcome> plan_profile(const ProfileTask& task, const partition::PlanOptions& options,
                                             std::stop_token stop);

/// Returns the plan of a file of `--emit plan` or `-o plan.json`, perhaps edited. Its decisions count; all numbers are
/// computed anew. Errors: the file is no plan, was made for another profile or cluster, or breaks a rule of plans.
Result<partition::StageOutcome> given_profile_plan(const ProfileTask& task, const std::string& path,
                                                   std::stop_token stop);

/// What plans of the profile are made for.
partition::StagePlanOrigin origin_of(const ProfileTask& task);

/// Explains why a profile has no plan: a task that fits no device, or the time of the fastest plan if a step limit is
/// exceeded. The latter plans once more.
std::vector<std::string> causes(const ProfileTask& task, const partition::PlanOptions& options);

/// Returns the profile with the stage of every node. An `Input*` node belongs to the first stage that reads it.
partition::PipedreamProfile with_stages(const ProfileTask& task, const partition::StagePlan& plan);

}  // namespace rannc::tools
