#include "tools/compile/profile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/problem/profile_problem.h"
#include "partition/stages/registry.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using partition::PipedreamProfile;
using partition::StagePlan;
using partition::StageProblem;

/// Says of which file something is, where the library did not know.
Diagnostic in_file(Diagnostic failure, const std::string& file) {
  if (failure.where.file.empty()) failure.where.file = file;
  return failure;
}

/// A warning where edges do not join all nodes; such a graph can be planned, but seldom is what was meant.
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
  return {fmt::format("the graph falls into {} parts that no edge joins; node '{}' begins the second", parts, second)};
}

partition::InFlight discipline_of(const PlanDemands& demands) {
  const auto* family = demands.schedules.size() == 1 ? partition::find_schedule(demands.schedules.front()) : nullptr;
  return family == nullptr ? partition::InFlight::kOneFOneB : family->assumed;
}

Result<void> add_demands_to(ProfileTask& task, const PlanDemands& demands) {
  std::vector<AtomName> names;
  std::vector<uint32_t> itself(task.problem.blocks);
  std::iota(itself.begin(), itself.end(), 0);
  for (uint32_t block = 0; block < task.problem.blocks; ++block) {
    const partition::ProfileNode& node = task.profile.nodes[task.node_of_block[block]];
    names.push_back({node.name, block});
    names.push_back({node.description, block});
  }
  RANNC_ASSIGN(const partition::AtomDemands named, named_demands(demands, names));
  task.problem.constraints = demanded_constraints(demands);
  return partition::add_demands(
      named, itself, [&](uint32_t block) { return task.block_names[block]; }, task.problem.constraints);
}

/// The plan under the schedule that is demanded, with its simulated step, and what stages then take and hold.
void simulate_plan(const StageProblem& problem, const std::string& schedule, StagePlan& plan) {
  StagePlan judged = plan;
  judged.schedule = schedule;
  judged.warm_up.clear();
  partition::PlanJudge judge(problem);
  std::string why;
  if (!judge.judge(judged, &why) || !judge.finish(judged, &why)) {
    plan.notes.push_back(fmt::format("under schedule {} the plan does not hold: {}", schedule, why));
    return;
  }
  if (plan.objective_name == judged.objective_name) plan.objective = judged.objective;
  plan.schedule = judged.schedule;
  plan.warm_up.clear();
  plan.step_ns = judged.step_ns;
  plan.stages = std::move(judged.stages);
}

}  // namespace

std::unique_ptr<partition::StagePlanner> demanded_planner(const PlanDemands& demands) {
  return demands.planner == "auto" ? partition::auto_planner(demanded_search(demands))
                                   : partition::make_planner(demands.planner);
}

Result<ProfileTask> read_profile_task(std::string_view text, const ProfileRequest& request) {
  const PlanDemands& demands = request.demands;
  ProfileTask task;
  RANNC_ASSIGN(task.profile, partition::read_pipedream(text, request.file));
  RANNC_ASSIGN(const partition::Cluster cluster, demanded_cluster(demands));
  const std::optional<uint64_t> samples =
      request.profile_batch ? request.profile_batch : partition::profile_batch_of(request.file);
  const partition::ProfileProblemOptions options{samples.value_or(1), demands.mini_batch.value_or(kMiniBatch),
                                                 static_cast<double>(demanded_optimizer(demands).states()), false};
  auto order = partition::profile_order(task.profile, options.keep_input);
  if (!order.ok()) return in_file(order.diagnostic(), request.file);
  task.node_of_block = *std::move(order);
  auto problem = partition::profile_problem(task.profile, cluster, options);
  if (!problem.ok()) return in_file(problem.diagnostic(), request.file);
  task.problem = *std::move(problem);
  task.problem.micro_batches = demands.micro_batches;
  task.problem.objective = demanded_objective(demands);
  task.problem.time_limit_ns = demands.step_limit_ns;
  task.problem.recompute = demanded_recompute(demands);
  task.problem.in_flight = discipline_of(demands);
  for (const uint32_t node : task.node_of_block) {
    task.block_names.push_back(task.profile.nodes[node].name + " " + task.profile.nodes[node].description);
  }
  if (const auto added = add_demands_to(task, demands); !added.ok()) return in_file(added.diagnostic(), request.file);
  task.warnings = parts_of(task.profile);
  if (!samples && demands.mini_batch.value_or(kMiniBatch) > 1 &&
      task.problem.objective != partition::Objective::kLargestLoad) {
    task.warnings.push_back(
        "the file's name does not say at how many samples it was measured (pbs-N): its times are taken as those of "
        "one; "
        "--profile-batch says otherwise");
  }
  return task;
}

Result<partition::StageOutcome> plan_profile(const ProfileTask& task, const PlanDemands& demands,
                                             std::stop_token stop) {
  RANNC_ASSIGN(partition::StageOutcome outcome, demanded_planner(demands)->plan(task.problem, std::move(stop)));
  auto* plan = std::get_if<StagePlan>(&outcome);
  if (plan == nullptr || demands.planner == "auto") return outcome;
  const std::string schedule = demands.schedules.empty() ? plan->schedule : demands.schedules.front();
  if (plan->step_ns == 0 || plan->schedule != schedule) simulate_plan(task.problem, schedule, *plan);
  return outcome;
}

Diagnostic no_plan(const partition::Infeasible& none) {
  Diagnostic failure = error("there is no plan: " + none.reason);
  if (none.missing_bytes > 0) {
    failure.notes.push_back(
        {{}, fmt::format("the best that was found misses the memory limit by {}", bytes(none.missing_bytes))});
  }
  if (!none.help.empty()) failure.notes.push_back({{}, "what would help: " + none.help});
  return failure;
}

std::vector<std::string> causes(const ProfileTask& task, const PlanDemands& demands) {
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
        fmt::format("task '{}' alone holds {} of parameters, gradients and optimizer state, {} more than any "
                    "device offers",
                    task.block_names[b], bytes(held), bytes(held - most)));
    break;
  }
  if (!problem.time_limit_ns) return found;
  StageProblem unhurried = problem;
  unhurried.time_limit_ns.reset();
  unhurried.objective = partition::Objective::kStepTime;
  const auto outcome = demanded_planner(demands)->plan(unhurried);
  const auto* plan = outcome.ok() ? std::get_if<StagePlan>(&*outcome) : nullptr;
  if (plan != nullptr) {
    found.push_back(fmt::format("the fastest plan that was found takes {}, --step-limit allows {}",
                                duration(plan->step_ns), duration(*problem.time_limit_ns)));
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
