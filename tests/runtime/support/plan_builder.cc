// Cuts graphs at given tasks, with textbook schedules.
#include "tests/runtime/support/plan_builder.h"

#include <algorithm>
#include <numeric>

#include "ir/schedule/lower_schedule.h"
#include "passes/training/cut_functions.h"

namespace rannc::testing {
namespace {

using ir::ActionKind;

ir::Atoms atoms_of(const ir::Graph& graph) {
  ir::Atoms atoms;
  for (TaskId task : graph.tasks()) {
    bool constant = true;
    for (ValueId value : graph.inputs(task)) {
      if (!value.valid()) continue;
      const TaskId producer = graph.value(value).producer;
      if (!producer.valid() && !ir::is_fixed(graph, value)) constant = false;
      if (producer.valid() && !atoms.constant[producer.index()]) constant = false;
    }
    atoms.constant.push_back(constant);
    atoms.atom_of.push_back(constant ? AtomId() : AtomId::from(atoms.tasks.size()));
    if (!constant) atoms.tasks.push_back(task);
  }
  return atoms;
}

std::vector<ir::Action> row_of(const PlanSpec& spec, uint32_t stage, uint32_t stages) {
  const auto count = static_cast<uint32_t>(spec.micro_batches.size());
  const uint32_t depth = spec.early_backward ? std::min(count, stages - stage) : count;
  std::vector<ir::Action> row;
  const auto add = [&](ActionKind kind, uint32_t mb) { row.push_back(ir::compute_action(kind, StageId(stage), mb)); };
  const auto backward = [&](uint32_t mb) {
    if (!spec.training) return;
    add(spec.split_backward ? ActionKind::kInputGradient : ActionKind::kBackward, mb);
    if (spec.split_backward) add(ActionKind::kWeightGradient, mb);
  };
  for (uint32_t mb = 0; mb < depth; ++mb) add(ActionKind::kForward, mb);
  for (uint32_t mb = 0; mb < count; ++mb) {
    backward(spec.early_backward ? mb : count - 1 - mb);
    if (mb + depth < count) add(ActionKind::kForward, mb + depth);
  }
  return row;
}

}  // namespace

ir::Plan build_plan(ir::Graph graph, const PlanSpec& spec) {
  ir::Plan plan;
  plan.atoms = atoms_of(graph);
  plan.graph = std::move(graph);
  plan.training = spec.training;
  plan.micro_batches = spec.micro_batches;
  plan.mini_batch = std::accumulate(spec.micro_batches.begin(), spec.micro_batches.end(), 0U);
  plan.planner = "hand";
  std::vector<uint32_t> bounds = {0};
  bounds.insert(bounds.end(), spec.cuts.begin(), spec.cuts.end());
  bounds.push_back(plan.graph.task_count());
  const auto stages = static_cast<uint32_t>(bounds.size() - 1);
  for (uint32_t s = 0; s < stages; ++s) {
    std::vector<TaskId> own;
    for (uint32_t t = bounds[s]; t < bounds[s + 1]; ++t) {
      if (plan.atoms.constant[t]) continue;
      own.emplace_back(t);
      plan.block_of.emplace_back(s);  // a block a stage
    }
    ir::Stage stage{.tasks = ir::close_over_constants(plan.graph, plan.atoms, own), .recompute = spec.recompute};
    const uint32_t replicas = spec.replicas.empty() ? 1 : spec.replicas[s];
    stage.sharded = spec.sharded && replicas > 1;
    for (uint32_t r = 0; r < replicas; ++r) {
      stage.devices.push_back(DeviceId::from(plan.devices.size()));
      plan.devices.push_back({.name = "cpu" + std::to_string(plan.devices.size()), .kind = "cpu"});
    }
    plan.stages.push_back(std::move(stage));
  }
  plan.predictions.resize(plan.devices.size());
  ir::derive_routes(plan);
  passes::cut_functions(plan).value();
  ir::choose_buckets(plan, spec.bucket_bytes);
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  ir::Schedule schedule{.name = spec.early_backward ? "1f1b" : "gpipe"};
  for (uint32_t s = 0; s < stages; ++s) {
    for (size_t r = 0; r < plan.stages[s].devices.size(); ++r) schedule.rows.push_back(row_of(spec, s, stages));
  }
  if (spec.recompute) schedule = ir::add_recompute(shape, std::move(schedule));
  plan.schedule = ir::lower_schedule(shape, schedule).value();
  return plan;
}

}  // namespace rannc::testing
