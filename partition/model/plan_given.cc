#include "partition/model/plan_given.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/schedule/schedule.h"
#include "partition/model/atom_dag.h"
#include "partition/model/planning_steps.h"
#include "partition/model/sharded_stages.h"
#include "partition/schedule/family.h"
#include "partition/stages/search/given_stages.h"

namespace rannc::partition {

namespace {

/// The pattern of given rows; empty if they have none.
SchedulePattern given_pattern(const GivenPlan& given) {
  ir::PipelineShape shape =
      ir::chain_shape(static_cast<uint32_t>(given.stages.size()), static_cast<uint32_t>(given.micro_batches));
  std::set<DeviceId> used;
  for (const GivenPlan::Stage& stage : given.stages) used.insert(stage.devices.begin(), stage.devices.end());
  shape.devices = static_cast<uint32_t>(used.size());
  for (size_t s = 0; s < given.stages.size(); ++s) {
    shape.stages[s].recompute = given.stages[s].recompute;
    shape.stages[s].devices = given.stages[s].devices;
    for (DeviceId& device : shape.stages[s].devices)
      device = DeviceId::from(static_cast<size_t>(std::distance(used.begin(), used.find(device))));
  }
  const auto rows = ir::parse_schedule(given.computations, shape);
  if (!rows.ok()) return {};
  auto pattern = pattern_of(*rows, shape);
  return pattern.ok() ? *std::move(pattern) : SchedulePattern();
}

}  // namespace

Result<BlockedModel> blocks_of(const GivenPlan& given, const PlanOptions& options, const ModelFacts& facts) {
  BlockedModel blocked;
  BlockPartition& blocks = blocked.partition;
  blocks.block_of = given.block_of_atom;
  for (const uint32_t block : blocks.block_of) blocks.count = std::max(blocks.count, block + 1);
  RANNC_ASSIGN(blocked.atoms, atom_dag(facts, options.cluster, atom_samples(options)));
  blocked.metrics = measure(blocked.atoms, blocks.block_of, blocks.count);
  return blocked;
}

StagePlan stages_of(const GivenPlan& given) {
  StagePlan stages;
  stages.planner = given.planner;
  stages.micro_batches = given.micro_batches;
  stages.schedule = given.schedule;
  std::vector<uint32_t> ends(given.stages.size());
  for (size_t atom = 0; atom < given.block_of_atom.size(); ++atom) {
    uint32_t& end = ends[given.stage_of_atom[atom]];
    end = std::max(end, given.block_of_atom[atom] + 1);
  }
  for (size_t s = 0; s < ends.size(); ++s)
    stages.stages.push_back({s == 0 ? 0 : ends[s - 1], ends[s], given.stages[s].devices, given.stages[s].recompute});
  if (schedule_needs(given.schedule, ScheduleFamily::Needs::kPattern)) stages.pattern = given_pattern(given);
  return stages;
}

Result<std::variant<PlannedModel, Infeasible>> plan_given(const PlanOptions& requested, const ModelFacts& facts) {
  using Outcome = std::variant<PlannedModel, Infeasible>;
  const GivenPlan& given = *requested.given;
  PlanOptions options = requested;
  options.schedule = "table";
  options.schedule_table = given.computations;
  options.schedule_file = given.file;
  PlannedModel planned;
  RANNC_ASSIGN(planned.blocks, blocks_of(given, options, facts));
  RANNC_ASSIGN(planned.problem, problem_of(options, facts, planned.blocks.partition, memory_of_kinds(options)));
  planned.problem.sharded = std::any_of(given.stages.begin(), given.stages.end(),
                                        [](const GivenPlan::Stage& stage) { return stage.sharded; });
  planned.stages = price_given(planned.problem, stages_of(given));
  mark_sharded(options, planned.stages);
  RANNC_TRY(finish(options, facts, planned));
  planned.plan.schedule.name = given.schedule;
  if (planned.stages.objective == 0) planned.stages.objective = static_cast<double>(planned.plan.step_ns);
  const std::vector<Overfull> over = overfull(planned.plan, options);
  if (over.empty()) return Outcome(std::move(planned));
  return Outcome(Infeasible{fmt::format("the plan of {} needs {:.0f} bytes on a device that holds {:.0f}", given.file,
                                        over.front().needed, over.front().offered),
                            over.front().needed - over.front().offered, "devices with more memory, another cut"});
}

}  // namespace rannc::partition
