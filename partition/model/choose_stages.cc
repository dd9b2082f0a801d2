#include "partition/model/choose_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "partition/model/block_model.h"
#include "partition/model/lap.h"
#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/search/given_stages.h"

namespace rannc::partition {

namespace {

using Outcome = std::variant<PlannedModel, Infeasible>;

// Blocks over which no plan fits.
struct Refused {
  BlockedModel blocks;  // without `atoms`, which all have in common
  StageProblem problem;
  Infeasible reason;
};

bool is_closer(const Infeasible& reason, const std::optional<Infeasible>& closest) {
  return !closest || reason.missing_bytes < closest->missing_bytes;
}

class StageChoice {
 public:
  StageChoice(const PlanOptions& options, const ModelFacts& facts, const KindMemory& memory)
      : options_(options), facts_(facts), memory_(memory) {}

  // Chooses blocks and stages. Coarse blocks may leave no plan within memory while finer ones do; then k is doubled.
  Result<Outcome> search(const StagePlanner& planner) {
    std::optional<Infeasible> closest;
    BlockModelOptions wanted;
    wanted.partitioner = options_.block_partitioner;
    wanted.samples = atom_samples(options_);
    wanted.memory_bytes = *std::max_element(memory_.begin(), memory_.end());
    for (wanted.blocks = options_.blocks;; wanted.blocks *= 2) {
      Lap lap;
      PlannedModel planned;
      RANNC_ASSIGN(auto blocked, block_model(facts_, options_.cluster, wanted));
      if (auto* infeasible = std::get_if<Infeasible>(&blocked))
        return Outcome(closest.value_or(std::move(*infeasible)));
      planned.blocks = std::get<BlockedModel>(std::move(blocked));
      RANNC_ASSIGN(planned.problem, problem_of(options_, facts_, planned.blocks.partition, memory_));
      times_.blocks += lap.ns();
      RANNC_ASSIGN(StageOutcome outcome, planner.plan(planned.problem, options_.stop));
      times_.stages += lap.ns();
      if (auto* plan = std::get_if<StagePlan>(&outcome))
        return chosen(std::move(planned), std::move(*plan), closest.has_value());
      const uint32_t count = planned.blocks.partition.count;
      const Infeasible& reason = std::get<Infeasible>(outcome);
      if (is_closer(reason, closest)) closest = reason;
      refuse(std::move(planned), reason);
      wanted.blocks = std::max(wanted.blocks, count);
      if (closest->missing_bytes <= 0 || wanted.blocks > kMostBlocks / 2 || count == facts_.atoms.tasks.size())
        return Outcome(std::move(*closest));
    }
  }

  // Continues a search that found nothing: plans the same blocks under the schedules that hold least.
  Result<Outcome> search_lean(const MakeAuto& make_auto, AutoOptions options) {
    std::optional<Infeasible> closest;
    for (Refused& refused : refused_) {
      Lap lap;
      options.refused = std::move(refused.reason);
      RANNC_ASSIGN(StageOutcome outcome, make_auto(options)->plan(refused.problem, options_.stop));
      times_.stages += lap.ns();
      if (auto* plan = std::get_if<StagePlan>(&outcome)) {
        PlannedModel planned;
        planned.problem = std::move(refused.problem);
        planned.blocks = std::move(refused.blocks);
        planned.blocks.atoms = std::move(atoms_);
        return chosen(std::move(planned), std::move(*plan), closest.has_value());
      }
      if (is_closer(std::get<Infeasible>(outcome), closest)) closest = std::get<Infeasible>(std::move(outcome));
    }
    return Outcome(*std::move(closest));
  }

  // Whether a search found nothing over some blocks.
  bool has_refused() const { return !refused_.empty(); }

 private:
  void refuse(PlannedModel planned, Infeasible reason) {
    atoms_ = std::move(planned.blocks.atoms);
    refused_.push_back({std::move(planned.blocks), std::move(planned.problem), std::move(reason)});
  }

  // `finer`: no plan over fewer blocks fits.
  Result<Outcome> chosen(PlannedModel planned, StagePlan plan, bool finer) {
    Lap lap;
    if (!planned.blocks.remark.empty()) planned.remarks.push_back(planned.blocks.remark);
    if (finer) planned.remarks.push_back(finer_remark(options_.blocks, planned.blocks.partition.count));
    planned.stages = std::move(plan);
    if (schedule_needs(options_.schedule, ScheduleFamily::Needs::kPattern) && planned.stages.pattern.empty()) {
      const JudgedPlan judged = with_found_rows(planned.problem, planned.stages);
      if (!judged) return Outcome(Infeasible{"no rows for the plan's stages: " + judged.why(), 0, "another schedule"});
      planned.stages = *judged;
      times_.stages += lap.ns();
    }
    planned.times = times_;
    return Outcome(std::move(planned));
  }

  const PlanOptions& options_;
  const ModelFacts& facts_;
  const KindMemory& memory_;
  PlanTimes times_;
  std::vector<Refused> refused_;
  Dag atoms_;  // of `refused_`
};

}  // namespace

std::string finer_remark(uint32_t requested, uint32_t used) {
  return fmt::format("no plan with {} blocks fits the memory: using {} blocks", requested, used);
}

Result<Outcome> choose_stages(const StagePlanner& planner, const PlanOptions& options, const ModelFacts& facts,
                              const KindMemory& memory, const MakeAuto& make_auto) {
  StageChoice choice(options, facts, memory);
  const AutoOptions search = search_of(options);
  const bool by_name = !search.schedules.empty() && search.schedules != std::vector<std::string>{"found"};
  if (options.planner != "auto" || by_name || search.lean == AutoOptions::Lean::kNever) return choice.search(planner);
  AutoOptions first = search;
  first.lean = AutoOptions::Lean::kNever;
  RANNC_ASSIGN(Outcome chosen, choice.search(*make_auto(std::move(first))));
  const bool found = std::holds_alternative<PlannedModel>(chosen);
  if (found || !choice.has_refused() || options.stop.stop_requested()) return chosen;
  return choice.search_lean(make_auto, search);
}

}  // namespace rannc::partition
