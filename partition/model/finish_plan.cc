#include "partition/model/finish_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/plan/buckets.h"
#include "ir/plan/fixed_samples.h"
#include "ir/plan/functions.h"
#include "ir/schedule/lower_schedule.h"
#include "partition/model/choose_kept.h"
#include "partition/model/stage_pricer.h"
#include "partition/stages/problem/problem.h"
#include "partition/text_digest.h"

namespace rannc::partition {

namespace {

// Returns the devices in use, in the cluster's order. Renumbers the stages.
void choose_devices(ir::Plan& plan, const StagePlan& stages, const Cluster& cluster, std::vector<DeviceId>& chosen) {
  std::set<DeviceId> used;
  for (const PlannedStage& stage : stages.stages) used.insert(stage.devices.begin(), stage.devices.end());
  std::map<DeviceId, DeviceId> renumbered;
  for (const DeviceId device : used) {
    renumbered.emplace(device, DeviceId::from(plan.devices.size()));
    const DeviceKind& kind = cluster.kind_of(device);
    plan.devices.push_back(
        {cluster.devices[device.index()].name, kind.name, kind.memory_bytes, kind.type, kind.instructions});
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
    stage.sharded = stages.stages[s].sharded;
    plan.stages.push_back(std::move(stage));
  }
}

// Returns the requested schedule, or that of the stages, with all parameters that some schedule may need.
ScheduleSpec schedule_spec(const ir::Plan& plan, const StagePlan& stages, const PlanOptions& options) {
  const Cluster& cluster = options.cluster;
  ScheduleSpec spec;
  spec.name = options.schedule.empty() ? stages.schedule : options.schedule;
  if (spec.name == stages.schedule) spec.pattern = stages.pattern;
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
      bytes += static_cast<double>(route.bytes.evaluate(ir::bindings_of(plan, plan.micro_batches.front())).value_or(0));
    }
    spec.times.hop.push_back(from == to ? 0 : cluster.link(from, to).transfer_ns(bytes));
  }
  return spec;
}

}  // namespace

std::string cluster_digest(const Cluster& cluster) { return text_digest(print_cluster(cluster)); }

Result<ir::Plan> cut_plan(const ModelFacts& model, const std::vector<uint32_t>& block_of_atom, const StagePlan& stages,
                          const PlanOptions& options) {
  ir::Plan plan;
  plan.graph = model.graph.clone();
  plan.atoms = model.atoms;
  RANNC_CHECK(options.mini_batch <= UINT32_MAX) << "a mini-batch of " << options.mini_batch;
  plan.mini_batch = static_cast<uint32_t>(options.mini_batch);
  plan.micro_batches = ir::split_mini_batch(plan.mini_batch, static_cast<uint32_t>(stages.micro_batches));
  plan.training = options.training;
  plan.loops = options.loops;
  plan.sizes = options.assume;
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

  RANNC_TRY(options.cut_functions(plan));
  ir::choose_buckets(plan, options.bucket_bytes);
  return plan;
}

Result<ir::Plan> finish_plan(const ModelFacts& model, const std::vector<uint32_t>& block_of_atom,
                             const StagePlan& stages, const PlanOptions& options) {
  RANNC_ASSIGN(ir::Plan plan, cut_plan(model, block_of_atom, stages, options));
  const MakeRows make_rows = [&](const ir::Plan& of, const ir::PipelineShape& shape) -> Result<ir::Schedule> {
    RANNC_ASSIGN(const ir::Schedule rows, make_schedule(shape, schedule_spec(of, stages, options)));
    return rows.lowered ? rows : ir::lower_schedule(shape, rows);
  };
  StagePricer pricer(model, options, stages);
  RANNC_TRY(choose_kept(plan, pricer, options, make_rows));
  RANNC_TRY(pricer.price_all(plan));

  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  price_finish(plan, shape, options.cluster);
  pricer.price_once_per_step(plan);
  RANNC_ASSIGN(plan.schedule, make_rows(plan, shape));
  pricer.price_marks(plan);
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
  changed.step_ns = changed.searched_ns = changed.lower_bound_ns = 0;
  if (const auto samples = ir::fixed_samples(plan.graph, plan.sizes); samples && change.micro_batches != 1) {
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
