/// Plans PipeDream's text profiles as `rannc-compile` was told.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "partition/formats/pipedream_text.h"
#include "partition/stages/planner.h"
#include "tools/compiler/demands.h"

namespace rannc::tools {

/// A profile, and what is demanded of its plan.
struct ProfileRequest {
  std::string file;                       ///< for messages, and for the samples in its name (`pbs-N`)
  std::optional<uint64_t> profile_batch;  ///< samples at which it was measured; empty: as the name says, or 1
  PlanDemands demands;
};

/// What the planners are given of a profile.
struct ProfileTask {
  partition::PipedreamProfile profile;
  std::vector<uint32_t> node_of_block;
  std::vector<std::string> block_names;  ///< `node7 Conv2d_2_1`
  partition::StageProblem problem;
  std::vector<std::string> warnings;  ///< the graph falls into parts
};

/// Reads a profile and sets up its problem: blocks are its nodes but `Input*`. Pins and the like name nodes by `node7`
/// or by their description. Errors name the file.
Result<ProfileTask> read_profile_task(std::string_view text, const ProfileRequest& request);

/// The planner that is demanded, with its options.
std::unique_ptr<partition::StagePlanner> demanded_planner(const PlanDemands& demands);

/// Plans. A plan by a planner that does not simulate gets its simulated step, under the schedule that is demanded.
Result<partition::StageOutcome> plan_profile(const ProfileTask& task, const PlanDemands& demands, std::stop_token stop);

/// What an infeasible problem is to the user: reason, missing bytes, what would help.
Diagnostic no_plan(const partition::Infeasible& none);

/// Why a profile has no plan, in its own terms: a task that no device can hold; how fast the fastest plan is where a
/// step must not take so long. Plans once more for the latter.
std::vector<std::string> causes(const ProfileTask& task, const PlanDemands& demands);

/// The profile with the stage of every node; `Input*` nodes count to the first stage that reads them.
partition::PipedreamProfile with_stages(const ProfileTask& task, const partition::StagePlan& plan);

}  // namespace rannc::tools
