#include "tools/compiler/plan_facts.h"

#include <algorithm>

#include "partition/model/block_demands.h"

namespace rannc::tools {

namespace {

using compiler::StageFacts;

void add_tasks(const ir::Plan& plan, std::vector<StageFacts>& stages) {
  const std::vector<StageId> stage_of = ir::stage_of_tasks(plan);
  for (const TaskId task : plan.graph.tasks()) {
    if (!stage_of[task.index()].valid()) continue;  // a constant task, which may be in several stages
    StageFacts& stage = stages[stage_of[task.index()].index()];
    stage.last_task = partition::task_name(plan.graph, task);
    if (stage.first_task.empty()) stage.first_task = stage.last_task;
  }
}

void add_devices(const ir::Plan& plan, const ir::Stage& stage, StageFacts& facts) {
  for (const DeviceId id : stage.devices) {
    const ir::PlanDevice& device = plan.devices[id.index()];
    const uint64_t peak = id.index() < plan.predictions.size() ? plan.predictions[id.index()].peak_bytes : 0;
    if (facts.devices.empty() || peak > facts.peak_bytes) {
      facts.peak_bytes = peak;
      facts.memory_bytes = device.memory_bytes;
    }
    facts.devices.push_back(device.name);
  }
}

std::vector<StageFacts> stage_facts(const ir::Plan& plan) {
  std::vector<StageFacts> stages(plan.stages.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    stages[s].tasks = plan.stages[s].tasks.size();
    stages[s].recompute = plan.stages[s].recompute;
    add_devices(plan, plan.stages[s], stages[s]);
  }
  for (const ir::StageTime& time : plan.stage_times) {
    stages[time.stage.index()].forward_ns = time.forward_ns;
    stages[time.stage.index()].backward_ns = time.backward_ns;
  }
  add_tasks(plan, stages);
  return stages;
}

}  // namespace

compiler::PlanFacts plan_facts(const partition::PlannedModel& planned, const SearchReport& search) {
  const ir::Plan& plan = planned.plan;
  compiler::PlanFacts facts;
  facts.step_ns = plan.step_ns;
  facts.measured = search.measured;
  facts.bubble = planned.timeline.bubble;
  facts.planner = plan.planner;
  facts.schedule = plan.schedule.name;
  facts.mini_batch = plan.mini_batch;
  facts.micro_batches = plan.micro_batches.size();
  facts.stages = stage_facts(plan);
  facts.objective_name = planned.stages.objective_name;
  facts.objective = planned.stages.objective;
  facts.lower_bound = planned.stages.lower_bound;
  facts.bound_name = planned.stages.bound_name;
  if (facts.lower_bound > 0) facts.gap = planned.stages.gap();
  facts.prices = search.prices;
  facts.search_seconds = search.seconds;
  facts.warnings = search.warnings;
  facts.remarks = planned.remarks;
  return facts;
}

}  // namespace rannc::tools
