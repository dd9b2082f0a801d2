#include "partition/model/finish_plan.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "ir/plan/fixed_samples.h"
#include "ir/plan/function_memory.h"
#include "ir/plan/functions.h"
#include "ir/schedule/lower_schedule.h"
#include "partition/model/stage_memory.h"
#include "partition/stages/problem/problem.h"

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

// Prices a stage on the slowest of its device kinds.
Result<ir::StageTime> stage_time(const ir::Plan& plan, StageId stage, uint32_t samples, const ModelFacts& model,
                                 const std::set<uint32_t>& kinds) {
  double forward = 0, backward = 0, weight = 0;
  for (const uint32_t kind : kinds) {
    const auto sum = [&](auto&& part) {
      return at_samples(model.costs.sizes, samples, [&](size_t size) {
        double total = 0;
        for (const TaskId task : plan.stages[stage.index()].tasks) total += part(model.costs.of(kind, size, task));
        return total;
      });
    };
    forward = std::max(forward, sum([](const TaskCost& cost) { return cost.forward_ns; }));
    if (!model.training) continue;
    backward = std::max(backward, sum([](const TaskCost& cost) { return cost.backward_ns(); }));
    weight = std::max(weight, sum([](const TaskCost& cost) { return cost.late_ns(); }));
  }
  if (!(forward + backward <= kMostNs)) {
    return error(
        fmt::format("stage {} would take {:.3g} ns for {} samples, more than the limit of {:.0e}: the cluster's "
                    "rates or the profile's times must be wrong",
                    stage.index(), forward + backward, samples, kMostNs));
  }
  ir::StageTime time{stage, samples, whole_ns(forward), whole_ns(backward)};
  time.weight_ns = std::min(whole_ns(weight), time.backward_ns);
  return time;
}

// The functions of one stage, ready to follow.
struct FollowedFunctions {
  FollowedFunctions(const ir::Plan& plan, size_t stage)
      : functions(*plan.functions[stage]),
        table(ir::function_table(functions)),
        follower(functions, table, ir::sample_inputs(plan, functions.joint.graph)) {}
  const ir::StageFunctions& functions;
  const ir::FunctionTable table;
  const ir::FunctionFollower follower;
};

// Sets the memory of a stage by following its functions.
void add_memory_of_functions(const ir::Plan& plan, const ir::FunctionFollower& follower, const ir::Bindings& assume,
                             ir::StageTime& time) {
  ir::Bindings sizes = assume;
  if (!plan.graph.batch_symbol().empty()) sizes[plan.graph.batch_symbol()] = time.samples;
  const auto whole = [](int64_t bytes) { return static_cast<uint64_t>(std::max<int64_t>(0, bytes)); };
  const ir::FunctionMemory memory = follower.follow(sizes);
  time.passing_bytes = whole(memory.evaluate);
  if (!plan.training) return;
  time.stashed_bytes = whole(memory.saved);
  time.kept_bytes = whole(memory.kept);
  time.pending_bytes = whole(memory.pending);
  time.forward_bytes = whole(memory.forward);
  time.begin_bytes = whole(memory.begin);
  time.rebuild_bytes = whole(memory.rebuild);
  time.input_bytes = whole(memory.input);
  time.weight_bytes = whole(memory.weight);
  time.first_weight_bytes = whole(memory.first_weight);
  time.backward_bytes = whole(memory.backward);
  time.first_backward_bytes = whole(memory.first_backward);
}

// Sets the memory of a stage by following its tasks under LibTorch's tape.
void add_memory(const ir::Plan& plan, StageFollower& follower, ir::StageTime& time) {
  std::vector<ValueId> sent;
  for (const ir::Route& route : plan.routes) {
    if (route.from == time.stage && route.gradient) sent.push_back(route.value);
  }
  sent.erase(std::unique(sent.begin(), sent.end()), sent.end());
  const auto whole = [](double bytes) { return static_cast<uint64_t>(std::ceil(bytes)); };
  const StageMemory memory = follower.follow(plan.stages[time.stage.index()].tasks, sent, time.samples);
  time.passing_bytes = whole(memory.passing);
  if (!plan.training) return;
  time.stashed_bytes = whole(memory.saved);
  time.pending_bytes = whole(memory.pending);
  time.forward_bytes = whole(memory.forward);
  time.backward_bytes = whole(memory.backward);
  time.first_backward_bytes = whole(memory.first_backward);
}

// Returns the devices in use, in the cluster's order. Renumbers the stages.
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
  // Outputs of constant tasks alone belong to the last stage, as in form-atoms.
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

// Returns the requested schedule, or that of the stages, with all parameters that some schedule may need.
ScheduleSpec schedule_spec(const ir::Plan& plan, const StagePlan& stages, const PlanOptions& options) {
  const Cluster& cluster = options.cluster;
  ScheduleSpec spec;
  spec.name = options.schedule.empty() ? stages.schedule : options.schedule;
  spec.table = options.schedule_table;
  spec.table_file = options.schedule_file;
  spec.k = options.schedule_parameters.periods;
  spec.period = options.schedule_parameters.period_ns;
  spec.warmup = options.schedule_parameters.warm_up;
  spec.recomputed = options.recomputed;
  // Depths that a planner derived for another schedule apply only if they are to be deepened.
  const bool own = spec.name == stages.schedule || schedule_needs(spec.name, ScheduleFamily::Needs::kWarmUp);
  if (spec.warmup.empty() && own) spec.warmup = stages.warm_up;
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

}  // namespace

std::string cluster_digest(const Cluster& cluster) {
  const std::string text = print_cluster(cluster);
  return fmt::format("{:016x}", XXH64(text.data(), text.size(), 0));
}

Result<ir::Plan> finish_plan(const ModelFacts& model, const std::vector<uint32_t>& block_of_atom,
                             const StagePlan& stages, const PlanOptions& options) {
  ir::Plan plan;
  plan.graph = model.graph.clone();
  plan.atoms = model.atoms;
  RANNC_CHECK(options.mini_batch <= UINT32_MAX) << "a mini-batch of " << options.mini_batch;
  plan.mini_batch = static_cast<uint32_t>(options.mini_batch);
  plan.micro_batches = ir::split_mini_batch(plan.mini_batch, static_cast<uint32_t>(stages.micro_batches));
  plan.training = options.training;
  plan.optimizer_states = options.optimizer_states;
  if (options.training) plan.optimizer = options.optimizer;
  plan.planner = stages.planner;
  plan.seed = options.seed;
  plan.model_digest = options.model_digest;
  plan.profile_digest = options.costs->fingerprint();
  plan.cluster_digest = cluster_digest(options.cluster);
  assign_tasks(plan, block_of_atom, stages);
  std::vector<DeviceId> chosen;
  choose_devices(plan, stages, options.cluster, chosen);
  ir::derive_routes(plan);

  if (options.cut_functions) options.cut_functions(plan);
  StageFollower follower(plan.graph, model.tape);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    std::set<uint32_t, std::greater<>> sizes;  // largest share of each micro-batch
    const auto replicas = static_cast<uint32_t>(plan.stages[s].devices.size());
    for (const uint32_t samples : plan.micro_batches) sizes.insert((samples + replicas - 1) / replicas);
    std::set<uint32_t> kinds;
    for (const DeviceId device : stages.stages[s].devices) kinds.insert(options.cluster.devices[device.index()].kind);
    std::optional<FollowedFunctions> functions;
    if (!plan.functions.empty()) functions.emplace(plan, s);
    for (const uint32_t samples : sizes) {
      RANNC_ASSIGN(ir::StageTime time, stage_time(plan, StageId::from(s), samples, model, kinds));
      plan.stage_times.push_back(time);
      if (functions) {
        add_memory_of_functions(plan, functions->follower, options.assume, plan.stage_times.back());
      } else {
        add_memory(plan, follower, plan.stage_times.back());
      }
    }
  }

  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  price_finish(plan, shape, options.cluster);
  RANNC_ASSIGN(const ir::Schedule rows, make_schedule(shape, schedule_spec(plan, stages, options)));
  RANNC_ASSIGN(plan.schedule, ir::lower_schedule(shape, rows));
  return plan;
}

Result<ir::Plan> reschedule(const ir::Plan& plan, const Reschedule& change) {
  ir::Plan changed = plan.clone();
  for (ir::Stage& stage : changed.stages) stage.recompute = change.recompute.has_value();
  for (auto& functions : changed.functions) {
    std::optional<std::vector<ValueId>> kept;
    if (change.recompute) kept = ir::kept_by_whole_recompute(functions->joint);
    if (functions->kept != kept) functions = ir::with_kept(*functions, std::move(kept));
  }
  changed.micro_batches = ir::split_mini_batch(plan.mini_batch, change.micro_batches);
  changed.stage_times.clear();
  changed.profile_digest.clear();
  changed.predictions.assign(plan.devices.size(), {});
  changed.step_ns = changed.lower_bound_ns = 0;
  if (const auto samples = ir::fixed_samples(plan.graph); samples && change.micro_batches != 1) {
    return error({},
                 fmt::format("the model has a static batch: its mini-batch of {} cannot be split into {} "
                             "micro-batches",
                             *samples, change.micro_batches),
                 "P15");
  }
  const ir::PipelineShape shape = ir::pipeline_shape(changed);
  ScheduleSpec spec;
  spec.name = change.schedule;
  spec.recomputed = change.recompute.value_or(spec.recomputed);
  RANNC_ASSIGN(const ir::Schedule rows, make_schedule(shape, spec));
  RANNC_ASSIGN(changed.schedule, ir::lower_schedule(shape, rows));
  return changed;
}

}  // namespace rannc::partition
