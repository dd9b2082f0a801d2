#include "tools/compile/profile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/replacement.h"
#include "partition/model/finish_plan.h"
#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/problem/places.h"
#include "partition/stages/problem/profile_problem.h"
#include "partition/stages/search/given_stages.h"
#include "partition/text_digest.h"
#include "tools/common/units.h"
#include "tools/compiler/named_tasks.h"

namespace rannc::tools {

namespace {

using partition::PipedreamProfile;
using partition::StagePlan;
using partition::StageProblem;

/// Adds the file to a diagnostic that lacks it.
Diagnostic in_file(Diagnostic failure, const std::string& file) {
  if (failure.where.file.empty()) failure.where.file = file;
  return failure;
}

/// Warns if the graph is not connected. Such a graph can be planned, but is rarely intended.
std::vector<std::string> parts_of(const PipedreamProfile& profile) {
  std::vector<uint32_t> root(profile.nodes.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](uint32_t node) {
    while (root[node] != node) node = root[node] = root[root[node]];
    return node;
  };
  for (const auto& [from, to] : profile.edges) {
    const uint32_t a = find(from), b = find(to);
    root[std::max(a, b)] = std::min(a, b);
  }
  size_t parts = 0;
  std::string second;
  for (uint32_t node = 0; node < root.size(); ++node) {
    if (find(node) != node) continue;
    if (++parts == 2) second = profile.nodes[node].name;
  }
  if (parts < 2) return {};
  return {fmt::format("the graph has {} unconnected parts; the second one begins at node '{}'", parts, second)};
}

partition::InFlight discipline_of(const partition::PlanOptions& options) {
  const partition::ScheduleFamily* family = partition::find_schedule(options.schedule);
  return family == nullptr ? partition::InFlight::kOneFOneB : family->assumed;
}

Result<void> add_named_tasks(ProfileTask& task, const compiler::PlanOptions& options) {
  std::vector<AtomName> names;
  std::vector<uint32_t> itself(task.problem.blocks);
  std::iota(itself.begin(), itself.end(), 0);
  for (uint32_t block = 0; block < task.problem.blocks; ++block) {
    const partition::ProfileNode& node = task.profile.nodes[task.node_of_block[block]];
    names.push_back({node.name, block});
    names.push_back({node.description, block});
  }
  RANNC_ASSIGN(const partition::AtomDemands named, named_demands(options, names));
  return partition::add_demands(
      named, itself, [&](uint32_t block) { return task.block_names[block]; }, task.problem.constraints);
}

/// Returns the plan under the requested schedule, with its simulated step and the resulting times and memory of stages.
void simulate_plan(const StageProblem& problem, const std::string& schedule, StagePlan& plan) {
  const bool rows = partition::schedule_needs(schedule, partition::ScheduleFamily::Needs::kPattern);
  StagePlan judged = plan;
  judged.schedule = schedule;
  judged.warm_up.clear();
  if (!partition::suits(schedule, plan)) {
    plan.notes.push_back(fmt::format("schedule {} is not made for the devices of these stages", schedule));
    return;
  }
  partition::PlanJudge judge(problem);
  partition::JudgedPlan found = rows ? partition::with_found_rows(problem, plan) : judge.judge(std::move(judged));
  if (found) found = judge.judge_by_device(*std::move(found));
  if (!found) {
    plan.notes.push_back(fmt::format("under schedule {} the plan does not hold: {}", schedule, found.why()));
    return;
  }
  if (plan.objective_name == found->objective_name) plan.objective = found->objective;
  plan.schedule = found->schedule;
  plan.warm_up.clear();
  plan.pattern = found->pattern;
  plan.step_ns = found->step_ns;
  plan.stages = found->stages;
}

}  // namespace

Result<ProfileTask> read_profile_task(std::string_view text, const ProfileRequest& request) {
  const partition::PlanOptions& plan = request.plan.planning;
  const uint32_t mini_batch = request.plan.options.mini_batch.value_or(kMiniBatch);
  ProfileTask task;
  RANNC_ASSIGN(task.profile, partition::read_pipedream(text, request.file));
  task.digest = partition::text_digest(text);
  const std::optional<uint64_t> samples =
      request.profile_batch ? request.profile_batch : partition::profile_batch_of(request.file);
  const partition::ProfileProblemOptions options{samples.value_or(1), mini_batch,
                                                 static_cast<double>(plan.optimizer.states()), false};
  auto order = partition::profile_order(task.profile, options.keep_input);
  if (!order.ok()) return in_file(order.diagnostic(), request.file);
  task.node_of_block = *std::move(order);
  auto problem = partition::profile_problem(task.profile, plan.cluster, options);
  if (!problem.ok()) return in_file(problem.diagnostic(), request.file);
  task.problem = *std::move(problem);
  static_cast<partition::PlanDemands&>(task.problem) = plan;
  task.problem.mini_batch = mini_batch;
  task.problem.in_flight = discipline_of(plan);
  for (const uint32_t node : task.node_of_block) {
    task.block_names.push_back(task.profile.nodes[node].name + " " + task.profile.nodes[node].description);
  }
  if (const auto added = add_named_tasks(task, request.plan.options); !added.ok())
    return in_file(added.diagnostic(), request.file);
  task.warnings = parts_of(task.profile);
  if (!samples && mini_batch > 1 && task.problem.objective != partition::Objective::kLargestLoad) {
    task.warnings.push_back(
        "the file's name does not contain its number of samples (pbs-N): times are assumed to be for one sample; use "
        "--profile-batch to specify it");
  }
  return task;
}

Result<partition::StageOutcome> plan_profile(const ProfileTask& task, const partition::PlanOptions& options,
                                             std::stop_token stop) {
  RANNC_ASSIGN(partition::StageOutcome outcome, requested_planner(options)->plan(task.problem, std::move(stop)));
  auto* plan = std::get_if<StagePlan>(&outcome);
  if (plan == nullptr || options.planner == "auto") return outcome;
  const std::string schedule = options.schedule.empty() ? plan->schedule : options.schedule;
  if (plan->step_ns == 0 || plan->schedule != schedule) simulate_plan(task.problem, schedule, *plan);
  return outcome;
}

partition::StagePlanOrigin origin_of(const ProfileTask& task) {
  return {task.digest, partition::cluster_digest(task.problem.cluster)};
}

Result<partition::StageOutcome> given_profile_plan(const ProfileTask& task, const std::string& path,
                                                   std::stop_token stop) {
  RANNC_ASSIGN(const std::string text, read_file(path));
  RANNC_ASSIGN(const partition::SavedStagePlan saved, partition::read_stage_plan(text, path));
  const partition::StagePlanOrigin here = origin_of(task);
  const auto differs = [](const std::string& of_plan, const std::string& now) {
    return !of_plan.empty() && of_plan != now;
  };
  if (differs(saved.origin.profile_digest, here.profile_digest)) {
    return error({.file = path}, fmt::format("was made for another profile: its digest is {}, that of this one {}",
                                             saved.origin.profile_digest, here.profile_digest));
  }
  if (differs(saved.origin.cluster_digest, here.cluster_digest)) {
    return error({.file = path},
                 fmt::format("was made for another cluster: its digest is {}, that of cluster '{}' is {}; --cluster, "
                             "--devices and --memory must be those of the plan",
                             saved.origin.cluster_digest, task.problem.cluster.name, here.cluster_digest));
  }
  auto outcome = partition::judge_given(task.problem, saved.plan, std::move(stop));
  if (!outcome.ok()) return in_file(outcome.diagnostic(), path);
  return outcome;
}

std::vector<std::string> causes(const ProfileTask& task, const partition::PlanOptions& options) {
  const StageProblem& problem = task.problem;
  std::vector<std::string> found;
  double most = 0;
  for (uint32_t d = 0; d < problem.cluster.size(); ++d) {
    most = std::max(most, static_cast<double>(problem.cluster.kind_of(DeviceId(d)).memory_bytes));
  }
  most = std::min(most, static_cast<double>(problem.constraints.memory_bytes.value_or(UINT64_MAX)));
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    const double held = partition::trained_bytes(problem, b);
    if (held <= most) continue;
    found.push_back(
        fmt::format("task '{}' alone needs {} for parameters, gradients and optimizer state, {} more than any "
                    "device offers",
                    task.block_names[b], bytes(held), bytes(held - most)));
    break;
  }
  if (!problem.step_limit_ns) return found;
  StageProblem unhurried = problem;
  unhurried.step_limit_ns.reset();
  unhurried.objective = partition::Objective::kStepTime;
  const auto outcome = requested_planner(options)->plan(unhurried);
  const auto* plan = outcome.ok() ? std::get_if<StagePlan>(&*outcome) : nullptr;
  if (plan != nullptr) {
    found.push_back(fmt::format("the fastest plan found takes {}, but --step-limit allows {}", duration(plan->step_ns),
                                duration(*problem.step_limit_ns)));
  }
  return found;
}

PipedreamProfile with_stages(const ProfileTask& task, const StagePlan& plan) {
  PipedreamProfile staged = task.profile;
  for (partition::ProfileNode& node : staged.nodes) node.stage.reset();
  for (uint32_t s = 0; s < plan.stages.size(); ++s) {
    for (uint32_t b = plan.stages[s].first; b < plan.stages[s].end; ++b) staged.nodes[task.node_of_block[b]].stage = s;
  }
  std::vector<char> is_block(staged.nodes.size(), 0);
  for (const uint32_t node : task.node_of_block) is_block[node] = 1;
  for (const auto& [from, to] : staged.edges) {
    if (is_block[from] || !staged.nodes[to].stage) continue;
    auto& stage = staged.nodes[from].stage;
    stage = std::min(stage.value_or(UINT32_MAX), *staged.nodes[to].stage);
  }
  for (partition::ProfileNode& node : staged.nodes) node.stage = node.stage.value_or(0);
  return staged;
}

}  // namespace rannc::tools
