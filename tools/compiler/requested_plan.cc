#include "tools/compiler/requested_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ir/base/replacement.h"
#include "ir/plan/buckets.h"
#include "partition/remaining_cluster.h"
#include "partition/schedule/family.h"
#include "partition/stages/registry.h"
#include "tools/common/machine.h"
#include "tools/common/units.h"
#include "tools/compiler/check_plan_options.h"

namespace rannc::tools {

namespace {

using compiler::Recompute;

constexpr std::string_view kLocalGpus = "local:cuda";

bool is_cluster_file(const std::string& cluster) {
  return std::filesystem::path(cluster).extension() == ".toml" || cluster.find('/') != std::string::npos;
}

bool has_local_workers(const std::string& cluster) {
  return cluster.starts_with("local:") && cluster != kLocalGpus && !is_cluster_file(cluster);
}

Result<partition::Cluster> requested_cluster(const compiler::PlanOptions& requested, const LocalGpus& local_gpus) {
  const bool file = is_cluster_file(requested.cluster);
  const bool gpus = requested.cluster == kLocalGpus && local_gpus;
  RANNC_ASSIGN(partition::Cluster cluster, gpus   ? local_gpus()
                                           : file ? partition::read_cluster(requested.cluster)
                                                  : partition::preset_cluster(requested.cluster));
  if (gpus && requested.memory_bytes) cluster.kinds.front().memory_bytes = *requested.memory_bytes;
  if (has_local_workers(requested.cluster)) {
    // Both are part of the plan. A cluster file states them for every machine.
    cluster.kinds.front().memory_bytes = requested.memory_bytes.value_or(worker_memory_bytes(cluster.size()));
    cluster.kinds.front().instructions = machine_instructions();
  }
  if (!requested.devices) return cluster;
  if (*requested.devices > cluster.size()) {
    return error(
        fmt::format("--devices {}: cluster '{}' has {}", *requested.devices, requested.cluster, cluster.size()));
  }
  return cluster.first(*requested.devices);
}

Result<partition::Cluster> without_lost(const partition::Cluster& cluster, const std::vector<std::string>& names) {
  std::vector<DeviceId> lost;
  for (const std::string& name : names) {
    const auto found = std::find_if(cluster.devices.begin(), cluster.devices.end(),
                                    [&](const partition::ClusterDevice& device) { return device.name == name; });
    if (found == cluster.devices.end()) {
      return error(fmt::format("--lost {}: cluster '{}' has no such device; its first is {}", name, cluster.name,
                               cluster.devices.front().name));
    }
    lost.push_back(DeviceId::from(static_cast<size_t>(found - cluster.devices.begin())));
  }
  std::sort(lost.begin(), lost.end());
  lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
  if (lost.size() == cluster.size())
    return error(fmt::format("--lost: no device of cluster '{}' is left", cluster.name));
  return partition::without(cluster, lost).cluster;
}

/// Kinds that are this machine's processor. A preset other than `local:N` describes another machine. In a file, the
/// device type distinguishes the processor from GPUs.
std::set<std::string> processor_kinds(const std::string& requested, const partition::Cluster& cluster) {
  std::set<std::string> names;
  if (!has_local_workers(requested) && !is_cluster_file(requested)) return names;
  for (const partition::DeviceKind& kind : cluster.kinds) {
    if (kind.type == ir::DeviceType::kCpu) names.insert(kind.name);
  }
  return names;
}

partition::Objective objective_of(compiler::Objective objective) {
  switch (objective) {
    case compiler::Objective::kStep:
      return partition::Objective::kStepTime;
    case compiler::Objective::kPeriod:
      return partition::Objective::kPeriod;
    case compiler::Objective::kLoad:
      return partition::Objective::kLargestLoad;
    case compiler::Objective::kMemory:
      return partition::Objective::kPeakMemory;
  }
  RANNC_CHECK(false) << "an objective without a counterpart";
  return {};
}

void add_recompute(const compiler::PlanOptions& requested, partition::PlanOptions& options) {
  using partition::RecomputeRule;
  const bool always = requested.recompute == Recompute::kAlways || requested.recompute == Recompute::kExceptLast;
  options.recompute = always                                     ? RecomputeRule::kAlways
                      : requested.recompute == Recompute::kNever ? RecomputeRule::kNever
                                                                 : RecomputeRule::kChoose;
  if (requested.recompute == Recompute::kAlways) options.recomputed = ir::RecomputedMicroBatches::kAll;
  if (requested.recompute == Recompute::kExceptLast) options.recomputed = ir::RecomputedMicroBatches::kAllButLast;
  if (requested.recompute == Recompute::kSelective)
    options.recompute_budget = requested.recompute_budget.value_or(kRecomputeBudget) / 100;
}

partition::ShardOptimizer sharding_of(compiler::ShardOptimizer requested) {
  if (requested == compiler::ShardOptimizer::kOn) return partition::ShardOptimizer::kAlways;
  return requested == compiler::ShardOptimizer::kOff ? partition::ShardOptimizer::kNever
                                                     : partition::ShardOptimizer::kWhereNeeded;
}

Result<void> add_schedules(const compiler::PlanOptions& requested, partition::PlanOptions& options) {
  options.schedule_parameters = {requested.warm_up, requested.periods.value_or(0), requested.period_ns.value_or(0)};
  if (requested.search_budget) options.search.simulated_actions = *requested.search_budget;
  if (requested.schedules.size() == 1) options.schedule = requested.schedules.front();
  if (!partition::schedule_needs(options.schedule, partition::ScheduleFamily::Needs::kTable)) {
    if (!requested.schedules.empty()) options.search.schedules = requested.schedules;
    return {};
  }
  options.schedule_file = requested.schedule_file;
  RANNC_ASSIGN(options.schedule_table, read_file(requested.schedule_file));
  return {};
}

Result<ir::PlanOptimizer> optimizer_of(const compiler::PlanOptions& requested) {
  static_assert(static_cast<int>(compiler::Optimizer::kSgd) == static_cast<int>(ir::OptimizerKind::kSgd) &&
                static_cast<int>(compiler::Optimizer::kMuon) == static_cast<int>(ir::OptimizerKind::kMuon) &&
                static_cast<int>(compiler::Optimizer::kAdafactor) == static_cast<int>(ir::OptimizerKind::kAdafactor));
  const auto kind = static_cast<ir::OptimizerKind>(requested.optimizer);
  ir::PlanOptimizer optimizer{std::string(str(kind)), requested.momentum, requested.amsgrad, {}};
  for (const auto& [flag, setting, given] : {std::tuple{"--momentum", "momentum", requested.momentum != 0},
                                             std::tuple{"--amsgrad", "amsgrad", requested.amsgrad}}) {
    if (given && !ir::has_setting(kind, setting))
      return error(fmt::format("{} applies to {}, not to {}", flag, ir::optimizers_with(setting), optimizer.name));
  }
  for (const std::string& text : requested.groups) {
    const Result<ir::ParameterGroup> group = ir::parse_group(text);
    if (!group.ok()) return error("--group " + group.diagnostic().message);
    optimizer.grouping.groups.push_back(*group);
  }
  optimizer.grouping.average = requested.average;
  return optimizer;
}

}  // namespace

bool RequestedPlan::on_processor() const {
  const std::vector<std::string> kinds = planning.cluster.used_kinds();
  return std::all_of(kinds.begin(), kinds.end(), [&](const auto& kind) { return processor_kinds.contains(kind); });
}

Result<RequestedPlan> requested_plan(const compiler::PlanOptions& options, const compiler::ReadOptions& read,
                                     const LocalGpus& local_gpus) {
  RequestedPlan request;
  compiler::PlanOptions& own = request.options;
  partition::PlanOptions& plan = request.planning;
  own = options;
  if (!own.mini_batch) own.mini_batch = read.mini_batch;
  RANNC_ASSIGN(own, checked(std::move(own)));
  RANNC_ASSIGN(plan.cluster, requested_cluster(own, local_gpus));
  RANNC_ASSIGN(plan.cluster, without_lost(plan.cluster, own.lost));
  request.on_this_machine = has_local_workers(own.cluster);
  request.processor_kinds = processor_kinds(own.cluster, plan.cluster);
  if (own.costs == compiler::Costs::kOfCluster)
    own.costs = request.on_processor() ? compiler::Costs::kMeasured : compiler::Costs::kAnalytic;
  plan.assume = {read.assumed_sizes.begin(), read.assumed_sizes.end()};
  plan.micro_batches = own.micro_batches;
  plan.planner = own.planner;
  plan.objective = objective_of(own.objective);
  plan.step_limit_ns = own.step_limit_ns;
  add_recompute(own, plan);
  plan.constraints.stages = own.stages;
  plan.constraints.max_stages = own.max_stages;
  plan.constraints.stages_per_device = own.stages_per_device;
  plan.constraints.replicas = own.replicas;
  plan.constraints.memory_bytes = own.memory_bytes;
  RANNC_ASSIGN(plan.optimizer, optimizer_of(own));
  plan.shard_optimizer = sharding_of(own.shard_optimizer);
  plan.overlap_sums = !own.late_sums;
  plan.loops = own.programs.form == compiler::Form::kNative && own.programs.loops;
  const ir::DeviceType device = plan.cluster.kind_of(DeviceId(0)).type;
  plan.bucket_bytes = own.bucket_bytes.value_or(ir::default_bucket_bytes(device));
  plan.blocks = own.blocks;
  plan.block_partitioner = own.block_partitioner;
  plan.seed = own.seed;
  RANNC_TRY(add_schedules(own, plan));
  return request;
}

std::unique_ptr<partition::StagePlanner> requested_planner(const partition::PlanOptions& options) {
  return options.planner == "auto" ? partition::auto_planner(options.search) : partition::make_planner(options.planner);
}

Diagnostic no_plan(const partition::Infeasible& none) {
  Diagnostic failure = error("there is no plan: " + none.reason);
  if (none.missing_bytes > 0) {
    failure.notes.push_back(
        {{}, fmt::format("the best plan found misses the memory limit by {}", bytes(none.missing_bytes))});
  }
  if (!none.help.empty()) failure.notes.push_back({{}, "what would help: " + none.help});
  return failure;
}

}  // namespace rannc::tools
