#include "partition/stages/search/every_plan.h"

#include <algorithm>

#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

class Enumeration {
 public:
  Enumeration(const StageProblem& problem, const std::function<void(const StagePlan&)>& visit)
      : problem_(problem),
        count_(stage_count(problem)),
        visit_(visit),
        choices_(recompute_choices(problem.recompute)) {}

  void run() {
    for (const uint64_t micro_batches : micro_batch_candidates(problem_)) {
      plan_.micro_batches = micro_batches;
      samples_ = (problem_.mini_batch + micro_batches - 1) / micro_batches;
      extend(0, 0);
    }
  }

 private:
  void extend(uint32_t first, uint32_t device) {
    if (first == problem_.blocks) {
      if (keeps_constraints(problem_, plan_)) visit_(plan_);
      return;
    }
    if (plan_.stages.size() == count_.most) return;
    for (uint32_t end = first + 1; end <= problem_.blocks; ++end) {
      PlannedStage stage;
      stage.first = first;
      stage.end = end;
      for (uint32_t to = device; to < problem_.cluster.size() && stage.devices.size() < samples_; ++to) {
        stage.devices.push_back(DeviceId(to));
        for (const bool recompute : choices_) {
          stage.recompute = recompute;
          plan_.stages.push_back(stage);
          extend(end, to + 1);
          plan_.stages.pop_back();
        }
      }
    }
  }

  const StageProblem& problem_;
  StageCount count_;
  const std::function<void(const StagePlan&)>& visit_;
  std::vector<bool> choices_;
  uint64_t samples_ = 1;
  StagePlan plan_;
};

}  // namespace

uint64_t count_plans(const StageProblem& problem, uint64_t limit) {
  // ways[s][d] = compositions: C(blocks-1, s-1) cuts * C(devices, s) replica vectors * choices^s.
  const double choices = static_cast<double>(recompute_choices(problem.recompute).size());
  const StageCount count = stage_count(problem);
  double total = 0, cuts = 1, replicas = problem.cluster.size(), recompute = choices;
  for (uint32_t s = 1; s <= count.most; ++s) {
    if (s >= count.least) total += cuts * replicas * recompute;
    if (total > static_cast<double>(limit)) return limit;
    cuts = cuts * (problem.blocks - s) / s;
    replicas = replicas * (problem.cluster.size() - s) / (s + 1);
    recompute *= choices;
  }
  total *= static_cast<double>(micro_batch_candidates(problem).size());
  return total > static_cast<double>(limit) ? limit : static_cast<uint64_t>(total);
}

void every_plan(const StageProblem& problem, const std::function<void(const StagePlan&)>& visit) {
  Enumeration(problem, visit).run();
}

}  // namespace rannc::partition
