#include "partition/stages/search/exact.h"

#include <fmt/format.h>

#include <limits>

#include "partition/schedule/family.h"
#include "partition/stages/search/auto.h"
#include "partition/stages/search/every_plan.h"

namespace rannc::partition {
namespace {

class ExactPlanner final : public StagePlanner {
 public:
  explicit ExactPlanner(uint64_t most_plans) : most_plans_(most_plans) {}
  std::string name() const override { return "exact"; }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token stop) const override {
    if (count_plans(problem, most_plans_ + 1) > most_plans_) {
      return Infeasible{fmt::format("{} blocks on {} devices have more than {} plans, too many to try them all",
                                    problem.blocks, problem.cluster.size(), most_plans_),
                        0, "planner auto, which states its gap; fewer blocks, stages or micro-batch counts"};
    }
    AutoOptions options;
    options.rivals = AutoOptions::Rivals::kExcluded;
    const bool parts = !problem.times.front().weight_gradient.empty();
    options.schedules.clear();
    for (const ScheduleFamily& family : schedule_families()) {
      if (!family.chosen_by_auto || family.needs != ScheduleFamily::Needs::kNothing) continue;
      if (parts || !family.splits_backward) options.schedules.emplace_back(family.name);
    }
    options.exhaustive_plans = most_plans_;
    options.simulated_actions = std::numeric_limits<uint64_t>::max();
    return *auto_planner(options)->plan(problem, std::move(stop));
  }

  uint64_t most_plans_;
};

}  // namespace

std::unique_ptr<StagePlanner> exact_planner(uint64_t most_plans) { return std::make_unique<ExactPlanner>(most_plans); }

}  // namespace rannc::partition
