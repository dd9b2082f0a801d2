#include "partition/model/plan_from_last.h"

#include <utility>

#include "partition/model/given_plan.h"
#include "partition/model/lap.h"
#include "partition/model/plan_given.h"
#include "partition/model/planning_steps.h"
#include "partition/stages/search/replan.h"

namespace rannc::partition {

Result<std::variant<PlannedModel, Infeasible>> plan_from_last(const PlanOptions& options, const ModelFacts& facts,
                                                              const KindMemory& memory) {
  using Outcome = std::variant<PlannedModel, Infeasible>;
  Lap lap;
  PlannedModel planned;
  RANNC_ASSIGN(planned.blocks, blocks_of(*options.last, options, facts));
  RANNC_ASSIGN(planned.problem, problem_of(options, facts, planned.blocks.partition, memory));
  planned.times.blocks += lap.ns();
  const LastPlan last{stages_of(*options.last), options.last->now};
  RANNC_ASSIGN(StageOutcome outcome, replan(planned.problem, last, search_of(options), options.stop));
  planned.times.stages += lap.ns();
  if (auto* infeasible = std::get_if<Infeasible>(&outcome)) return Outcome(std::move(*infeasible));
  planned.stages = std::get<StagePlan>(std::move(outcome));
  mark_sharded(options, planned.stages);
  RANNC_TRY(finish(options, facts, planned));
  return Outcome(std::move(planned));
}

}  // namespace rannc::partition
