#include "partition/stages/search/exact.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "partition/schedule/family.h"
#include "partition/stages/search/arrangements.h"
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
    AutoOptions options;
    options.rivals = AutoOptions::Rivals::kExcluded;
    options.schedules = schedules_of(problem);
    const std::vector<Arrangement> all = arrangements(problem, options.schedules);
    const bool too_many = std::any_of(all.begin(), all.end(), [&](const Arrangement& one) {
      return count_plans(problem, one, most_plans_ + 1) > most_plans_;
    });
    if (too_many) {
      return Infeasible{fmt::format("{} blocks on {} devices have more than {} plans, too many to try them all",
                                    problem.blocks, problem.cluster.size(), most_plans_),
                        0, "planner auto, which states its gap; fewer blocks, stages or micro-batch counts"};
    }
    options.exhaustive_plans = most_plans_;
    options.simulated_actions = std::numeric_limits<uint64_t>::max();
    return *auto_planner(options)->plan(problem, std::move(stop));
  }

  static std::vector<std::string> schedules_of(const StageProblem& problem) {
    const bool parts = !problem.times.front().weight_gradient.empty();
    std::vector<std::string> names;
    for (const ScheduleFamily& family : schedule_families()) {
      if (family.needs != ScheduleFamily::Needs::kNothing) continue;
      if (!family.chosen_by_auto) continue;
      if (parts || !family.splits_backward) names.emplace_back(family.name);
    }
    return names;
  }

  uint32_t most_stages_per_device(const StageProblem& problem) const override { return shared_stages(problem); }

  uint64_t most_plans_;
};

}  // namespace

std::unique_ptr<StagePlanner> exact_planner(uint64_t most_plans) { return std::make_unique<ExactPlanner>(most_plans); }

}  // namespace rannc::partition
