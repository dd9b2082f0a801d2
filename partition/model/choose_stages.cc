#include "partition/model/choose_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "partition/model/block_model.h"
#include "partition/model/lap.h"
#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/search/auto.h"
#include "partition/stages/search/given_stages.h"

namespace rannc::partition {

namespace {

using Outcome = std::variant<PlannedModel, Infeasible>;

// Chooses blocks and stages. Coarse blocks may leave no plan within memory while finer ones do; then k is doubled.
Result<Outcome> choose_by(const StagePlanner& planner, const PlanOptions& options, const ModelFacts& facts,
                          const KindMemory& memory) {
  PlannedModel planned;
  std::optional<Infeasible> closest;
  BlockModelOptions wanted;
  wanted.partitioner = options.block_partitioner;
  wanted.samples = atom_samples(options);
  wanted.memory_bytes = *std::max_element(memory.begin(), memory.end());
  for (wanted.blocks = options.blocks;; wanted.blocks *= 2) {
    Lap lap;
    RANNC_ASSIGN(auto blocked, block_model(facts, options.cluster, wanted));
    if (auto* infeasible = std::get_if<Infeasible>(&blocked)) return Outcome(closest.value_or(std::move(*infeasible)));
    planned.blocks = std::get<BlockedModel>(std::move(blocked));
    RANNC_ASSIGN(planned.problem, problem_of(options, facts, planned.blocks.partition, memory));
    planned.times.blocks += lap.ns();
    RANNC_ASSIGN(StageOutcome outcome, planner.plan(planned.problem, options.stop));
    planned.times.stages += lap.ns();
    const uint32_t count = planned.blocks.partition.count;
    if (auto* infeasible = std::get_if<Infeasible>(&outcome)) {
      if (!closest || infeasible->missing_bytes < closest->missing_bytes) closest = std::move(*infeasible);
      wanted.blocks = std::max(wanted.blocks, count);
      if (closest->missing_bytes <= 0 || wanted.blocks > kMostBlocks / 2 || count == facts.atoms.tasks.size())
        return Outcome(std::move(*closest));
      continue;
    }
    if (!planned.blocks.remark.empty()) planned.remarks.push_back(planned.blocks.remark);
    if (closest) planned.remarks.push_back(finer_remark(options.blocks, count));
    planned.stages = std::get<StagePlan>(std::move(outcome));
    if (!schedule_needs(options.schedule, ScheduleFamily::Needs::kPattern) || !planned.stages.pattern.empty())
      return Outcome(std::move(planned));
    const JudgedPlan judged = with_found_rows(planned.problem, planned.stages);
    if (!judged) return Outcome(Infeasible{"no rows for the plan's stages: " + judged.why(), 0, "another schedule"});
    planned.stages = *judged;
    planned.times.stages += lap.ns();
    return Outcome(std::move(planned));
  }
}

}  // namespace

std::string finer_remark(uint32_t requested, uint32_t used) {
  return fmt::format("no plan with {} blocks fits the memory: using {} blocks", requested, used);
}

Result<Outcome> choose_stages(const StagePlanner& planner, const PlanOptions& options, const ModelFacts& facts,
                              const KindMemory& memory) {
  AutoOptions first = search_of(options);
  const bool by_name = !first.schedules.empty() && first.schedules != std::vector<std::string>{"found"};
  if (options.planner != "auto" || by_name || first.lean == AutoOptions::Lean::kNever)
    return choose_by(planner, options, facts, memory);
  first.lean = AutoOptions::Lean::kNever;
  RANNC_ASSIGN(Outcome chosen, choose_by(*auto_planner(first), options, facts, memory));
  if (std::holds_alternative<PlannedModel>(chosen) || options.stop.stop_requested()) return chosen;
  return choose_by(planner, options, facts, memory);
}

}  // namespace rannc::partition
