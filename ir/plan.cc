#include "ir/plan.h"

#include <algorithm>
#include <set>

#include "ir/op.h"

namespace rannc::ir {

std::vector<uint32_t> split_mini_batch(uint32_t mini_batch, uint32_t count) {
  count = std::min(count, mini_batch);
  std::vector<uint32_t> sizes(count);
  for (uint32_t i = 0; i < count; ++i) sizes[i] = mini_batch / count + (i < mini_batch % count ? 1 : 0);
  return sizes;
}

std::vector<StageId> stage_of_tasks(const Plan& plan) {
  std::vector<StageId> stage_of(plan.graph.task_count());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const TaskId task : plan.stages[s].tasks) {
      if (task.index() < plan.atoms.constant.size() && !plan.atoms.constant[task.index()]) {
        stage_of[task.index()] = StageId::from(s);
      }
    }
  }
  return stage_of;
}

std::vector<bool> needs_gradient(const Graph& graph) {
  std::vector<bool> needed(graph.value_count());
  for (const ValueId id : graph.values()) needed[id.index()] = graph.value(id).kind == ValueKind::kParameter;
  for (const TaskId task : graph.tasks()) {
    bool upstream = false;
    for (const ValueId input : graph.inputs(task)) upstream = upstream || (input.valid() && needed[input.index()]);
    for (const ValueId output : graph.outputs(task)) {
      needed[output.index()] = upstream && is_float(graph.type(output).dtype);
    }
  }
  return needed;
}

namespace {

Dim byte_count(const ValueType& type) {
  return type.shape ? element_count(*type.shape) * Dim(byte_size(type.dtype)) : Dim(0);
}

// Stages that read each value of interest, in the order of tasks within stages.
std::set<StageId> reading_stages(const Plan& plan, const std::vector<std::vector<StageId>>& stages_of, ValueId value) {
  std::set<StageId> readers;
  plan.graph.for_each_use(value, [&](Graph::Use use) {
    const auto& holders = stages_of[use.task.index()];
    readers.insert(holders.begin(), holders.end());
  });
  return readers;
}

// Largest integer number of bytes per sample that covers every micro-batch of the plan.
int64_t bytes_per_sample(const Plan& plan, const Dim& bytes) {
  int64_t most = 0;
  for (const uint32_t samples : plan.micro_batches) {
    const auto value = bytes.evaluate({{plan.graph.batch_symbol(), samples}});
    if (value && samples != 0) most = std::max(most, *value / samples + (*value % samples != 0 ? 1 : 0));
  }
  return most;
}

int64_t parameter_bytes(const Plan& plan, const Stage& stage) {
  std::set<ValueId> seen;
  int64_t bytes = 0;
  for (const TaskId task : stage.tasks) {
    for (const ValueId input : plan.graph.inputs(task)) {
      if (!input.valid() || plan.graph.value(input).kind != ValueKind::kParameter || !seen.insert(input).second) continue;
      bytes += byte_count(plan.graph.type(input)).evaluate({}).value_or(0);
    }
  }
  return bytes;
}

}  // namespace

void derive_routes(Plan& plan) {
  plan.routes.clear();
  plan.shared.clear();
  const std::vector<StageId> stage_of = stage_of_tasks(plan);
  const std::vector<bool> gradient = needs_gradient(plan.graph);
  std::vector<std::vector<StageId>> stages_of(plan.graph.task_count());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const TaskId task : plan.stages[s].tasks) stages_of[task.index()].push_back(StageId::from(s));
  }
  for (const ValueId value : plan.graph.values()) {
    const Graph::Value& facts = plan.graph.value(value);
    if (facts.kind == ValueKind::kParameter) {
      const std::set<StageId> readers = reading_stages(plan, stages_of, value);
      if (readers.size() > 1) plan.shared.push_back({value, *readers.begin(), {std::next(readers.begin()), readers.end()}});
      continue;
    }
    if (!facts.producer.valid()) continue;
    const StageId from = stage_of[facts.producer.index()];
    if (!from.valid()) continue;  // made by a constant task, which every reading stage holds itself
    for (const StageId to : reading_stages(plan, stages_of, value)) {
      if (to != from) {
        plan.routes.push_back({value, from, to, byte_count(facts.type), plan.training && gradient[value.index()]});
      }
    }
  }
}

PipelineShape pipeline_shape(const Plan& plan) {
  PipelineShape shape;
  shape.micro_batches = plan.micro_batches;
  shape.devices = static_cast<uint32_t>(plan.devices.size());
  shape.training = plan.training;
  for (const PlanDevice& device : plan.devices) shape.memory_bytes.push_back(static_cast<int64_t>(device.memory_bytes));
  for (const Stage& stage : plan.stages) {
    StageShape entry;
    entry.devices = stage.devices;
    entry.recompute = stage.recompute;
    entry.fixed_bytes = parameter_bytes(plan, stage) * (plan.training ? 2 + plan.optimizer_states : 1);
    shape.stages.push_back(std::move(entry));
  }
  for (const StageTime& time : plan.stage_times) {
    if (time.stage.index() >= shape.stages.size() || time.samples == 0) continue;
    StageShape& entry = shape.stages[time.stage.index()];
    const int64_t saved = static_cast<int64_t>((time.stashed_bytes + time.samples - 1) / time.samples);
    entry.saved_bytes = std::max(entry.saved_bytes, saved);
  }
  for (const Route& route : plan.routes) {
    const int64_t bytes = bytes_per_sample(plan, route.bytes);
    shape.routes.push_back({route.from, route.to, bytes, route.gradient});
    if (route.to.index() < shape.stages.size()) shape.stages[route.to.index()].kept_bytes += bytes;
  }
  for (const SharedParameter& shared : plan.shared) {
    SharedShape entry;
    entry.stages.push_back(shared.owner);
    entry.stages.insert(entry.stages.end(), shared.others.begin(), shared.others.end());
    entry.bytes = byte_count(plan.graph.type(shared.parameter)).evaluate({}).value_or(0);
    shape.shared.push_back(std::move(entry));
  }
  return shape;
}

bool equal(const Plan& a, const Plan& b) {
  return equal(a.graph, b.graph) && a.atoms == b.atoms && a.block_of == b.block_of && a.stages == b.stages &&
         a.routes == b.routes && a.shared == b.shared && a.devices == b.devices && a.mini_batch == b.mini_batch &&
         a.optimizer_states == b.optimizer_states && a.training == b.training &&
         a.micro_batches == b.micro_batches && a.schedule == b.schedule && a.predictions == b.predictions &&
         a.stage_times == b.stage_times && a.step_ns == b.step_ns && a.lower_bound_ns == b.lower_bound_ns &&
         a.planner == b.planner && a.seed == b.seed && a.model_digest == b.model_digest &&
         a.cluster_digest == b.cluster_digest && a.profile_digest == b.profile_digest;
}

}  // namespace rannc::ir
