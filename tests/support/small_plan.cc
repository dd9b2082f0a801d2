#include "tests/support/small_plan.h"

#include <algorithm>
#include <string>

#include "ir/schedule/lower_schedule.h"

namespace rannc::testing {

using namespace rannc::ir;

Atoms atoms_of(const Graph& graph) {
  Atoms atoms;
  atoms.constant.resize(graph.task_count());
  atoms.atom_of.resize(graph.task_count());
  for (const TaskId task : graph.tasks()) {
    bool constant = true;
    for (const ValueId input : graph.inputs(task)) {
      if (!input.valid()) continue;
      const TaskId maker = graph.producer(input);
      constant = constant && (maker.valid() ? atoms.constant[maker.index()] : is_fixed(graph, input));
    }
    atoms.constant[task.index()] = constant;
    if (constant) continue;
    atoms.atom_of[task.index()] = AtomId::from(atoms.tasks.size());
    atoms.tasks.push_back(task);
  }
  return atoms;
}

namespace {

// All forward passes, then all backward passes in reverse.
Schedule gpipe(const PipelineShape& shape) {
  Schedule schedule;
  schedule.name = "gpipe";
  schedule.rows.resize(shape.devices);
  const uint32_t count = shape.micro_batch_count();
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    for (const DeviceId device : shape.stages[s].devices) {
      auto& row = schedule.rows[device.index()];
      for (uint32_t m = 0; m < count; ++m) row.push_back(compute_action(ActionKind::kForward, StageId::from(s), m));
      for (uint32_t m = count; m-- > 0;) row.push_back(compute_action(ActionKind::kBackward, StageId::from(s), m));
    }
  }
  return lower_schedule(shape, add_recompute(shape, std::move(schedule))).value();
}

void cut(Plan& plan, const PlanShape& shape) {
  const size_t atoms = plan.atoms.tasks.size(), stages = std::min<size_t>(shape.stages, atoms);
  plan.block_of.resize(atoms);
  uint32_t blocks = 0;
  for (size_t s = 0; s < stages; ++s) {
    const size_t first = atoms * s / stages, last = atoms * (s + 1) / stages, middle = (first + last) / 2;
    for (size_t a = first; a < last; ++a) {
      if (a == first || a == middle) ++blocks;
      plan.block_of[a] = BlockId(blocks - 1);
    }
    Stage stage;
    stage.tasks = close_over_constants(plan.graph, plan.atoms,
                                       {plan.atoms.tasks.begin() + static_cast<ptrdiff_t>(first),
                                        plan.atoms.tasks.begin() + static_cast<ptrdiff_t>(last)});
    stage.recompute = shape.recompute && s % 2 == 0;
    stage.sharded = shape.sharded && shape.replicas > 1;
    for (uint32_t r = 0; r < shape.replicas; ++r) {
      stage.devices.push_back(DeviceId::from(plan.devices.size()));
      plan.devices.push_back({"node0/cpu" + std::to_string(plan.devices.size()), "cpu", uint64_t{1} << 30});
    }
    plan.stages.push_back(std::move(stage));
  }
}

}  // namespace

Plan small_plan(Graph graph, const PlanShape& shape) {
  Plan plan;
  plan.graph = std::move(graph);
  plan.atoms = atoms_of(plan.graph);
  cut(plan, shape);
  derive_routes(plan);
  choose_buckets(plan, shape.bucket_bytes);
  plan.mini_batch = shape.mini_batch;
  plan.micro_batches = split_mini_batch(shape.mini_batch, shape.micro_batches);
  plan.optimizer = {"sgd", 0.5, false, {}};
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stage_times.push_back({StageId::from(s), 3, 1000, 2000, 300});
    plan.finish_times.push_back(
        {StageId::from(s), shape.replicas > 1 ? 70 : 0, 40, 0, shape.sharded && shape.replicas > 1 ? 60 : 0});
  }
  for (SharedParameter& shared : plan.shared) shared.sum_ns = 50;
  for (size_t d = 0; d < plan.devices.size(); ++d) plan.predictions.push_back({5000, 100000});
  plan.step_ns = 9000;
  plan.lower_bound_ns = 6000;
  plan.planner = "even cut";
  plan.seed = UINT64_MAX;
  plan.model_digest = "0123456789abcdef";
  plan.cluster_digest = "ff";
  plan.schedule = gpipe(pipeline_shape(plan));
  return plan;
}

}  // namespace rannc::testing
