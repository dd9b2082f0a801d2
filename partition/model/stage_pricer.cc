#include "partition/model/stage_pricer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "ir/plan/buckets.h"
#include "ir/plan/function_memory.h"
#include "ir/schedule/last_weight.h"
#include "partition/model/finish_plan.h"
#include "partition/model/value_bytes.h"

namespace rannc::partition {

namespace {

// Interpolates linearly between priced sizes, like the planners' own tables.
double at_samples(const std::vector<uint64_t>& sizes, uint64_t samples, const std::function<double(size_t)>& time) {
  TimeTable table;
  table.sizes = sizes;
  const TimeTable::Blend blend = table.blend(samples);
  return blend.low_weight * time(blend.low) + blend.high_weight * time(blend.high);
}

constexpr double kMostNs = 1e15;  // eleven days for a micro-batch: larger costs are not those of any machine

// Returns the tasks of the plan that R repeats.
std::vector<TaskId> repeated_tasks(const ir::Plan& plan, StageId stage, const ir::FunctionTable& table) {
  std::vector<TaskId> tasks;
  const ir::Joint& joint = plan.functions[stage.index()]->joint;
  for (const TaskId task : table[ir::FunctionKind::kRebuild].tasks) {
    tasks.push_back(plan.stages[stage.index()].tasks[joint.origins[task.index()].task.index()]);
  }
  return tasks;
}

}  // namespace

StagePricer::StagePricer(const ModelFacts& model, const PlanOptions& options, const StagePlan& stages)
    : model_(model), options_(options) {
  for (const PlannedStage& stage : stages.stages) {
    std::set<uint32_t>& kinds = kinds_.emplace_back();
    for (const DeviceId device : stage.devices) kinds.insert(options.cluster.devices[device.index()].kind);
  }
}

std::vector<uint32_t> StagePricer::samples_of(const ir::Plan& plan, StageId stage) const {
  std::set<uint32_t, std::greater<>> sizes;  // largest share of each micro-batch
  const auto replicas = static_cast<uint32_t>(plan.stages[stage.index()].devices.size());
  for (const uint32_t samples : plan.micro_batches) sizes.insert((samples + replicas - 1) / replicas);
  return {sizes.begin(), sizes.end()};
}

template <class Part>
double StagePricer::slowest(StageId stage, uint32_t samples, const std::vector<TaskId>& tasks, Part&& part) const {
  double most = 0;
  for (const uint32_t kind : kinds_[stage.index()]) {
    most = std::max(most, at_samples(model_.costs.sizes, samples, [&](size_t size) {
                      double total = 0;
                      for (const TaskId task : tasks) total += part(model_.costs.of(kind, size, task));
                      return total;
                    }));
  }
  return most;
}

// Prices a stage on the slowest of its device kinds.
Result<ir::StageTime> StagePricer::time_of(const ir::Plan& plan, StageId stage, uint32_t samples,
                                           const std::vector<TaskId>& repeated) const {
  std::vector<TaskId> tasks;
  for (const TaskId task : plan.stages[stage.index()].tasks) {
    if (model_.costs.per_micro_batch(task)) tasks.push_back(task);
  }
  const double forward = slowest(stage, samples, tasks, [](const TaskCost& cost) { return cost.forward_ns; });
  double backward = 0, weight = 0, rebuild = 0;
  if (model_.training) {
    backward = slowest(stage, samples, tasks, [](const TaskCost& cost) { return cost.backward_ns(); });
    weight = slowest(stage, samples, tasks, [](const TaskCost& cost) { return cost.late_ns(); });
    rebuild = slowest(stage, samples, repeated, [](const TaskCost& cost) { return cost.rebuild_ns(); });
  }
  if (!(forward + backward <= kMostNs)) {
    return error(
        fmt::format("stage {} would take {:.3g} ns for {} samples, more than the limit of {:.0e}: the cluster's "
                    "rates or the profile's times must be wrong",
                    stage.index(), forward + backward, samples, kMostNs));
  }
  ir::StageTime time{stage, samples, whole_ns(forward), whole_ns(backward)};
  time.weight_ns = std::min(whole_ns(weight), time.backward_ns);
  if (plan.functions[stage.index()]->kept) {
    time.rebuild_ns = std::max<int64_t>(1, whole_ns(rebuild));
  }
  return time;
}

Result<std::vector<ir::StageTime>> StagePricer::price(const ir::Plan& plan, StageId stage) {
  ir::FunctionFollower functions(plan, stage);
  const std::vector<TaskId> repeated = repeated_tasks(plan, stage, functions.table());
  std::vector<ir::StageTime> times;
  for (const uint32_t samples : samples_of(plan, stage)) {
    RANNC_ASSIGN(ir::StageTime time, time_of(plan, stage, samples, repeated));
    functions.follow(ir::bindings_of(plan, time.samples), time);
    times.push_back(time);
  }
  return times;
}

Result<void> StagePricer::price_all(ir::Plan& plan) {
  plan.stage_times.clear();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    RANNC_ASSIGN(const std::vector<ir::StageTime> times, price(plan, StageId::from(s)));
    plan.stage_times.insert(plan.stage_times.end(), times.begin(), times.end());
  }
  return {};
}

void StagePricer::price_once_per_step(ir::Plan& plan) const {
  const auto samples = static_cast<uint32_t>(model_.costs.sizes.back());
  plan.begin_ns.assign(plan.stages.size(), 0);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StageId stage = StageId::from(s);
    std::vector<TaskId> tasks;
    for (const TaskId task : plan.stages[s].tasks) {
      if (model_.costs.per_step(task)) tasks.push_back(task);
    }
    plan.begin_ns[s] = whole_ns(slowest(stage, samples, tasks, [](const TaskCost& cost) { return cost.forward_ns; }));
    if (!plan.training) continue;
    plan.finish_times[s].gradients_ns =
        whole_ns(slowest(stage, samples, tasks, [](const TaskCost& cost) { return cost.backward_ns(); }));
  }
  const auto takes_time = [](int64_t ns) { return ns > 0; };
  if (std::none_of(plan.begin_ns.begin(), plan.begin_ns.end(), takes_time)) plan.begin_ns.clear();
}

// The time of a task's gradient is spread evenly over the tasks that compute it.
void StagePricer::price_marks(ir::Plan& plan) const {
  for (size_t s = 0; s < plan.finish_times.size(); ++s) {
    const StageId stage = StageId::from(s);
    std::vector<ir::SumTime>& sums = plan.finish_times[s].sums;
    if (sums.empty() || plan.functions.size() <= s || !options_.overlap_sums) continue;
    const ir::Joint& joint = plan.functions[s]->joint;
    const ir::FunctionTable table = ir::function_table(*plan.functions[s]);
    const std::vector<ir::Action>& row = plan.schedule.rows[plan.stages[s].devices.front().index()];
    const ir::Action& action = row[ir::last_weights(row).at(stage)];
    const bool splits = action.kind == ir::ActionKind::kWeightGradient;
    const auto& tasks = table[splits ? ir::FunctionKind::kWeight : ir::FunctionKind::kBackward].tasks;
    const auto origin = [&](TaskId task) { return plan.stages[s].tasks[joint.origins[task.index()].task.index()]; };
    std::map<TaskId, double> parts;
    for (const TaskId task : tasks) ++parts[origin(task)];
    const auto replicas = static_cast<uint32_t>(plan.stages[s].devices.size());
    const uint32_t samples = (plan.micro_batches[action.micro_batch] + replicas - 1) / replicas;
    const std::vector<std::optional<TaskId>> last = ir::final_tasks(plan, stage);
    double ahead = 0;
    size_t bucket = sums.size();
    const auto pass = [&](std::optional<TaskId> task) {
      for (; bucket > 0 && (!last[bucket - 1] || (task && *last[bucket - 1] >= *task)); --bucket)
        sums[bucket - 1].ahead_ns = last[bucket - 1] ? whole_ns(ahead) : 0;
    };
    for (size_t i = tasks.size(); i-- > 0;) {
      pass(tasks[i]);
      const TaskId of = origin(tasks[i]);
      if (!model_.costs.per_micro_batch(of)) continue;
      ahead += slowest(stage, samples, {of}, [&](const TaskCost& cost) {
        return (splits ? cost.late_ns() : cost.backward_ns()) / parts.at(of);
      });
    }
    pass(TaskId(0));
  }
}

ir::RecomputeCosts StagePricer::recompute_costs(const ir::Plan& plan, StageId stage) const {
  const ir::Joint& joint = plan.functions[stage.index()]->joint;
  const ir::Graph& graph = joint.graph;
  const uint32_t samples = samples_of(plan, stage).front();
  double launch_ns = 0, bytes_per_second = kMostCost;
  for (const uint32_t kind : kinds_[stage.index()]) {
    launch_ns = std::max(launch_ns, options_.cluster.kinds[kind].launch_ns);
    bytes_per_second = std::min(bytes_per_second, options_.cluster.kinds[kind].bytes_per_second);
  }
  ir::RecomputeCosts costs;
  for (const ValueId value : graph.values()) {
    const auto line = byte_line(graph, value, options_.assume);
    const double bytes = line.ok() ? std::min(line->at(samples), kMostNs) : 0;
    costs.bytes.push_back(static_cast<int64_t>(bytes));
    costs.random_ns.push_back(whole_ns(std::min(launch_ns + 2e9 * bytes / bytes_per_second, kMostNs)));
  }
  for (const ValueId sample : ir::sample_inputs(plan, graph)) costs.bytes[sample.index()] = 0;
  costs.forward_ns.assign(graph.task_count(), 0);
  for (uint32_t i = 0; i < joint.forward_count(); ++i) {
    const TaskId task = plan.stages[stage.index()].tasks[joint.origins[i].task.index()];
    if (!model_.costs.per_micro_batch(task)) continue;  // R never repeats it
    for (const uint32_t kind : kinds_[stage.index()]) {
      const double ns = at_samples(model_.costs.sizes, samples,
                                   [&](size_t size) { return model_.costs.of(kind, size, task).rebuild_ns(); });
      costs.forward_ns[i] = std::max(costs.forward_ns[i], whole_ns(std::min(ns, kMostNs)));
    }
  }
  return costs;
}

}  // namespace rannc::partition
