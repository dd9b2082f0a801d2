#include "partition/model/finish_plan.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/lower_schedule.h"
#include "partition/stages/problem.h"

namespace rannc::partition {

namespace {

// Linear between priced sizes, as the planners' own tables.
double at_samples(const std::vector<uint64_t>& sizes, uint64_t samples, const std::function<double(size_t)>& time) {
  TimeTable table;
  table.sizes = sizes;
  const TimeTable::Blend blend = table.blend(samples);
  return blend.low_weight * time(blend.low) + blend.high_weight * time(blend.high);
}

ir::StageTime stage_time(const ir::Plan& plan, StageId stage, uint32_t samples, const PlanFacts& facts, uint32_t kind) {
  ir::StageTime time;
  time.stage = stage;
  time.samples = samples;
  const auto sum = [&](auto&& part) {
    return at_samples(facts.costs->sizes, samples, [&](size_t size) {
      double total = 0;
      for (const TaskId task : plan.stages[stage.index()].tasks) total += part(facts.costs->of(kind, size, task));
      return total;
    });
  };
  time.forward_ns = static_cast<int64_t>(sum([](const TaskCost& cost) { return cost.forward_ns; }));
  time.backward_ns =
      facts.training ? static_cast<int64_t>(sum([](const TaskCost& cost) { return cost.backward_ns(); })) : 0;
  time.stashed_bytes =
      facts.training ? static_cast<uint64_t>(sum([](const TaskCost& cost) { return cost.saved_bytes; })) : 0;
  return time;
}

// Devices in use, in the cluster's order; renumbers the stages.
void choose_devices(ir::Plan& plan, const StagePlan& stages, const Cluster& cluster, std::vector<DeviceId>& chosen) {
  std::set<DeviceId> used;
  for (const PlannedStage& stage : stages.stages) used.insert(stage.devices.begin(), stage.devices.end());
  std::map<DeviceId, DeviceId> renumbered;
  for (const DeviceId device : used) {
    renumbered.emplace(device, DeviceId::from(plan.devices.size()));
    const DeviceKind& kind = cluster.kind_of(device);
    plan.devices.push_back({cluster.devices[device.index()].name, kind.name, kind.memory_bytes});
    chosen.push_back(device);
  }
  for (size_t s = 0; s < stages.stages.size(); ++s) {
    for (const DeviceId device : stages.stages[s].devices) plan.stages[s].devices.push_back(renumbered.at(device));
  }
}

void assign_tasks(ir::Plan& plan, const std::vector<uint32_t>& block_of_atom, const StagePlan& stages) {
  std::vector<size_t> stage_of_block;
  for (size_t s = 0; s < stages.stages.size(); ++s) stage_of_block.resize(stages.stages[s].end, s);
  std::vector<std::vector<TaskId>> tasks(stages.stages.size());
  for (size_t atom = 0; atom < plan.atoms.tasks.size(); ++atom) {
    plan.block_of.push_back(BlockId(block_of_atom[atom]));
    tasks[stage_of_block[block_of_atom[atom]]].push_back(plan.atoms.tasks[atom]);
  }
  // Outputs that constant tasks make alone belong to the last stage, as form-atoms has it.
  for (const ValueId output : plan.graph.outputs()) {
    const TaskId producer = plan.graph.value(output).producer;
    if (producer.valid() && plan.atoms.constant[producer.index()]) tasks.back().push_back(producer);
  }
  for (size_t s = 0; s < tasks.size(); ++s) {
    ir::Stage stage;
    std::sort(tasks[s].begin(), tasks[s].end());
    stage.tasks = ir::close_over_constants(plan.graph, plan.atoms, tasks[s]);
    stage.recompute = stages.stages[s].recompute;
    plan.stages.push_back(std::move(stage));
  }
}

// Warm-up depths by latency need times by stage; all other schedules ignore them.
ScheduleSpec schedule_spec(const ir::Plan& plan, const StagePlan& stages, const Cluster& cluster,
                           const std::string& name) {
  ScheduleSpec spec;
  spec.name = name;
  spec.warmup = stages.warm_up;
  for (size_t s = 0; s < stages.stages.size(); ++s) {
    spec.times.forward.push_back(stages.stages[s].forward_ns);
    spec.times.backward.push_back(stages.stages[s].backward_ns);
    if (s == 0) continue;
    const DeviceId from = stages.stages[s - 1].devices.front(), to = stages.stages[s].devices.front();
    double bytes = 0;
    for (const ir::Route& route : plan.routes) {
      if (route.to.index() != s) continue;
      bytes += static_cast<double>(
          route.bytes.evaluate({{plan.graph.batch_symbol(), plan.micro_batches.front()}}).value_or(0));
    }
    spec.times.hop.push_back(from == to ? 0 : cluster.link(from, to).transfer_ns(bytes));
  }
  return spec;
}

DeviceId device_named(const Cluster& cluster, const std::string& name) {
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    if (cluster.devices[i].name == name) return DeviceId::from(i);
  }
  RANNC_CHECK(false) << "plan's device " << name << " is not in the cluster";
  return {};
}

}  // namespace

std::string cluster_digest(const Cluster& cluster) {
  const std::string text = print_cluster(cluster);
  return fmt::format("{:016x}", XXH64(text.data(), text.size(), 0));
}

Result<ir::Plan> finish_plan(ir::Graph graph, ir::Atoms atoms, const std::vector<uint32_t>& block_of_atom,
                             const StagePlan& stages, const PlanFacts& facts) {
  ir::Plan plan;
  plan.graph = std::move(graph);
  plan.atoms = std::move(atoms);
  plan.mini_batch = facts.mini_batch;
  plan.micro_batches = ir::split_mini_batch(facts.mini_batch, static_cast<uint32_t>(stages.micro_batches));
  plan.training = facts.training;
  plan.optimizer_states = facts.optimizer_states;
  plan.planner = stages.planner;
  plan.seed = facts.seed;
  plan.model_digest = facts.model_digest;
  plan.profile_digest = facts.profile_digest;
  plan.cluster_digest = cluster_digest(*facts.cluster);
  assign_tasks(plan, block_of_atom, stages);
  std::vector<DeviceId> chosen;
  choose_devices(plan, stages, *facts.cluster, chosen);
  ir::derive_routes(plan);

  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::set<uint32_t, std::greater<>> sizes;  // largest share of each micro-batch
    const auto replicas = static_cast<uint32_t>(plan.stages[s].devices.size());
    for (const uint32_t samples : plan.micro_batches) sizes.insert((samples + replicas - 1) / replicas);
    const uint32_t kind = facts.cluster->devices[stages.stages[s].devices.front().index()].kind;
    for (const uint32_t samples : sizes)
      plan.stage_times.push_back(stage_time(plan, StageId::from(s), samples, facts, kind));
  }

  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  RANNC_ASSIGN(const ir::Schedule rows,
               make_schedule(shape, schedule_spec(plan, stages, *facts.cluster, facts.schedule)));
  RANNC_ASSIGN(plan.schedule, ir::lower_schedule(shape, rows));
  return plan;
}

Result<ir::Plan> reschedule(const ir::Plan& plan, const Reschedule& change) {
  ir::Plan changed;
  changed.graph = plan.graph.clone();
  changed.atoms = plan.atoms;
  changed.block_of = plan.block_of;
  changed.stages = plan.stages;
  for (ir::Stage& stage : changed.stages) stage.recompute = change.recompute;
  changed.routes = plan.routes;
  changed.shared = plan.shared;
  changed.devices = plan.devices;
  changed.mini_batch = plan.mini_batch;
  changed.optimizer_states = plan.optimizer_states;
  changed.training = plan.training;
  changed.micro_batches = ir::split_mini_batch(plan.mini_batch, change.micro_batches);
  changed.planner = plan.planner;
  changed.seed = plan.seed;
  changed.model_digest = plan.model_digest;
  changed.cluster_digest = plan.cluster_digest;
  changed.predictions.resize(plan.devices.size());
  const ir::PipelineShape shape = ir::pipeline_shape(changed);
  ScheduleSpec spec;
  spec.name = change.schedule;
  RANNC_ASSIGN(const ir::Schedule rows, make_schedule(shape, spec));
  RANNC_ASSIGN(changed.schedule, ir::lower_schedule(shape, rows));
  return changed;
}

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
        entry.forward = entry.recompute = static_cast<double>(time.forward_ns);
        entry.input_gradient = static_cast<double>(time.backward_ns);
      }
      times.push_back(entry);
    }
    costs.compute.push_back(std::move(times));
  }
  return costs;
}

ScheduleCosts schedule_costs(const ir::Plan& plan, const Cluster& cluster) {
  ScheduleCosts costs = compute_costs(plan);
  std::vector<DeviceId> in_cluster;
  for (const ir::PlanDevice& device : plan.devices) in_cluster.push_back(device_named(cluster, device.name));
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const double bytes =
        static_cast<double>(shape.stages[s].fixed_bytes) / (plan.training ? 2 + plan.optimizer_states : 1);
    std::vector<DeviceId> members;
    for (const DeviceId home : plan.stages[s].devices) members.push_back(in_cluster[home.index()]);
    std::sort(members.begin(), members.end());
    const double n = static_cast<double>(members.size());
    costs.all_reduce.push_back(n > 1 ? cluster.slowest_link(members).transfer_ns(2 * (n - 1) / n * bytes) : 0);
    const DeviceKind& kind = cluster.kind_of(members.front());
    // Reads and writes parameter and states, reads the gradient.
    costs.step.push_back(bytes * (3 + 2 * plan.optimizer_states) * 1e9 / kind.bytes_per_second);
  }
  for (const ir::SharedShape& shared : shape.shared) {
    std::set<DeviceId> members;
    for (const StageId stage : shared.stages) {
      for (const DeviceId home : plan.stages[stage.index()].devices) members.insert(in_cluster[home.index()]);
    }
    const double n = static_cast<double>(members.size());
    const std::vector<DeviceId> group(members.begin(), members.end());
    costs.shared.push_back(
        n > 1 ? cluster.slowest_link(group).transfer_ns(2 * (n - 1) / n * static_cast<double>(shared.bytes)) : 0);
  }
  costs.link = [in_cluster, &cluster](DeviceId from, DeviceId to) {
    const Link& link = cluster.link(in_cluster[from.index()], in_cluster[to.index()]);
    return LinkCost{link.latency_ns, 1e9 / link.bytes_per_second};
  };
  return costs;
}

Result<Timeline> predict(ir::Plan& plan, const Cluster& cluster) {
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  RANNC_ASSIGN(Timeline timeline, simulate(shape, plan.schedule, schedule_costs(plan, cluster)));
  plan.predictions.clear();
  for (const DeviceTimeline& device : timeline.devices) {
    plan.predictions.push_back(
        {static_cast<int64_t>(device.busy), static_cast<uint64_t>(std::max<int64_t>(0, device.peak_bytes))});
  }
  plan.step_ns = static_cast<int64_t>(timeline.makespan);
  return timeline;
}

}  // namespace rannc::partition
