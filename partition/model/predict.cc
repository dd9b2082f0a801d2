// Predicts the times of a finished plan: durations of its actions and messages, and the simulated schedule.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "ir/plan/buckets.h"
#include "ir/plan/nccl_memory.h"
#include "ir/plan/parameter_updates.h"
#include "partition/model/finish_plan.h"
#include "partition/model/value_bytes.h"
#include "partition/stages/pricing/cluster_links.h"
#include "partition/transfers.h"

namespace rannc::partition {

namespace {

constexpr double kMostStepNs = 4e18;  // below the range of 63 bits

// Maps each of the plan's devices to the device of the same name in the cluster.
std::vector<DeviceId> devices_in(const Cluster& cluster, const ir::Plan& plan) {
  std::map<std::string_view, DeviceId> named;
  for (size_t i = 0; i < cluster.devices.size(); ++i) named.emplace(cluster.devices[i].name, DeviceId::from(i));
  std::vector<DeviceId> found;
  for (const ir::PlanDevice& device : plan.devices) {
    const auto at = named.find(device.name);
    RANNC_CHECK(at != named.end()) << "plan's device " << device.name << " is not in the cluster";
    found.push_back(at->second);
  }
  return found;
}

}  // namespace

std::vector<TrainedBytes> trained_bytes(const ir::Plan& plan) {
  const ir::ParameterUpdates updates = ir::ParameterUpdates::of(plan.graph, plan.optimizer).value();  // P14 holds
  std::vector<TrainedBytes> bytes;
  std::vector<StageId> counted(plan.graph.value_count());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    bytes.emplace_back();
    for (const TaskId task : plan.stages[s].tasks) {
      for (const ValueId input : plan.graph.inputs(task)) {
        if (!input.valid() || plan.graph.kind(input) != ir::ValueKind::kParameter) continue;
        if (std::exchange(counted[input.index()], StageId::from(s)) == StageId::from(s)) continue;
        const auto line = byte_line(plan.graph, input, {});
        if (!line.ok()) continue;
        bytes.back().parameters += line->fixed;
        bytes.back().gradients += line->fixed * sum_ratio(plan.graph.type(input).dtype);
        bytes.back().states += line->fixed * updates.state_copies(input);
      }
    }
  }
  return bytes;
}

int64_t whole_ns(double ns) { return static_cast<int64_t>(std::min(std::ceil(ns), kMostStepNs)); }

ScheduleCosts compute_costs(const ir::Plan& plan) {
  ScheduleCosts costs;
  std::vector<uint32_t> distinct;  // micro-batch sizes, larger first
  for (const uint32_t samples : plan.micro_batches) {
    if (distinct.empty() || distinct.back() != samples) distinct.push_back(samples);
    costs.size_class.push_back(static_cast<uint32_t>(distinct.size() - 1));
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::vector<ComputeTimes> times;
    const auto replicas = static_cast<uint32_t>(plan.stages[s].devices.size());
    for (const uint32_t samples : distinct) {
      const uint32_t share = (samples + replicas - 1) / replicas;
      ComputeTimes entry;
      for (const ir::StageTime& time : plan.stage_times) {
        if (time.stage.index() != s || time.samples != share) continue;
        entry.forward = static_cast<double>(time.forward_ns);
        entry.recompute = static_cast<double>(time.rebuild_ns > 0 ? time.rebuild_ns : time.forward_ns);
        entry.input_gradient = static_cast<double>(time.backward_ns - time.weight_ns);
        entry.weight_gradient = static_cast<double>(time.weight_ns);
      }
      times.push_back(entry);
    }
    costs.compute.push_back(std::move(times));
  }
  costs.begin.assign(plan.begin_ns.begin(), plan.begin_ns.end());
  for (const ir::FinishTime& time : plan.finish_times) {
    std::vector<SumCost>& sums = costs.all_reduce.emplace_back();
    for (const ir::SumTime& sum : time.sums)
      sums.push_back({static_cast<double>(sum.sum_ns), static_cast<double>(sum.ahead_ns)});
    if (sums.empty()) sums.push_back({static_cast<double>(time.all_reduce_ns), 0});
    costs.step.push_back(static_cast<double>(time.optimizer_ns));
    costs.gradients.push_back(static_cast<double>(time.gradients_ns));
    costs.gather.push_back(static_cast<double>(time.gather_ns));
  }
  for (const ir::SharedParameter& shared : plan.shared) costs.shared.push_back(static_cast<double>(shared.sum_ns));
  return costs;
}

void price_finish(ir::Plan& plan, const ir::PipelineShape& shape, const Cluster& cluster) {
  plan.finish_times.clear();
  if (!plan.training) return;
  const std::vector<DeviceId> in_cluster = devices_in(cluster, plan);
  // Time of an all-reduce of these bytes between all devices of some stages.
  const auto sum_ns = [&](const std::vector<StageId>& stages, double bytes) -> int64_t {
    std::set<DeviceId> members;
    for (const StageId stage : stages) {
      for (const DeviceId home : plan.stages[stage.index()].devices) members.insert(in_cluster[home.index()]);
    }
    if (members.size() < 2) return 0;
    const std::vector<DeviceId> group(members.begin(), members.end());
    return whole_ns(ring_ns(bytes, static_cast<double>(group.size()), cluster.slowest_link(group)));
  };
  const std::vector<TrainedBytes> trained = trained_bytes(plan);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    double rate = std::numeric_limits<double>::infinity();
    for (const DeviceId home : plan.stages[s].devices) {
      rate = std::min(rate, cluster.kind_of(in_cluster[home.index()]).bytes_per_second);
    }
    const StageId stage = StageId::from(s);
    const double update = optimizer_pass_ns(trained[s].parameters, trained[s].gradients, trained[s].states, rate);
    ir::FinishTime& time =
        plan.finish_times.emplace_back(ir::FinishTime{stage, sum_ns({stage}, trained[s].gradients), whole_ns(update)});
    // Two sums run at once, so that latency counts once for all.
    const std::vector<int64_t> buckets = ir::bytes_of_buckets(plan, stage);
    const double all = std::accumulate(buckets.begin(), buckets.end(), 0.0);
    if (all > 0) time.all_reduce_ns = sum_ns({stage}, all);
    if (plan.stages[s].sharded) {
      // Each half of a ring takes half its time.
      time.all_reduce_ns /= 2;
      time.optimizer_ns = whole_ns(update / static_cast<double>(plan.stages[s].devices.size()));
      time.gather_ns = sum_ns({stage}, trained[s].parameters) / 2;
    }
    for (const int64_t bytes : buckets) {
      const double part = static_cast<double>(bytes) / std::max(1.0, all);
      time.sums.push_back({whole_ns(static_cast<double>(time.all_reduce_ns) * part), 0});
    }
  }
  for (size_t g = 0; g < plan.shared.size(); ++g) {
    plan.shared[g].sum_ns = sum_ns(shape.shared[g].stages, static_cast<double>(shape.shared[g].bytes));
  }
}

ScheduleCosts schedule_costs(const ir::Plan& plan, const Cluster& cluster) {
  ScheduleCosts costs = compute_costs(plan);
  use_links(costs, cluster, devices_in(cluster, plan));
  return costs;
}

Result<Timeline> predict(ir::Plan& plan, const Cluster& cluster) {
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  SimulationOptions options;
  options.contention = contended(plan.schedule);
  RANNC_ASSIGN(Timeline timeline, simulate(shape, plan.schedule, schedule_costs(plan, cluster), options));
  if (!(timeline.makespan <= kMostStepNs)) {
    return error(
        fmt::format("a step would take {:.3g} ns, more than the limit of {:.0e}: the cluster's rates or the "
                    "profile's times must be wrong",
                    timeline.makespan, kMostStepNs));
  }
  plan.predictions.clear();
  const std::vector<DeviceId> in_cluster = devices_in(cluster, plan);
  const std::vector<uint64_t> beside = ir::bytes_beside_tensors(plan);
  for (size_t d = 0; d < timeline.devices.size(); ++d) {
    const DeviceTimeline& device = timeline.devices[d];
    const auto peak = static_cast<uint64_t>(std::max<int64_t>(0, device.peak_bytes));
    const uint64_t libraries = cluster.kind_of(in_cluster[d]).workspace_bytes;
    plan.predictions.push_back({static_cast<int64_t>(device.busy), peak + libraries + beside[d]});
  }
  plan.step_ns = static_cast<int64_t>(timeline.makespan);
  return timeline;
}

}  // namespace rannc::partition
