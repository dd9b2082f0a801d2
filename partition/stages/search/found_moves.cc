#include "partition/stages/search/found_moves.h"

#include <algorithm>
#include <optional>

#include "partition/stages/problem/places.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

constexpr uint64_t kTries = 16;  ///< searches for rows that the budget allows, if each spends its part

}  // namespace

/// Returns the neighbours that have not been tried, each under its fastest named schedule, fastest first.
std::vector<StagePlan> FoundMoves::neighbours(const StagePlan& plan, double beat) {
  std::vector<StagePlan> found;
  any_small_move(problem_, plan, [&](StagePlan next) {
    next.pattern = {};
    next.warm_up.clear();
    if (tried_.contains(structure(next))) return false;
    std::optional<StagePlan> fastest;
    for (const std::string& schedule : options_.schedules) {
      if (!suits(schedule, next)) continue;
      next.schedule = schedule;
      const JudgedPlan judged = judge_.judge(next, beat);
      if (judged && (!fastest || better(*judged, *fastest))) fastest = *judged;
    }
    if (fastest) found.push_back(*std::move(fastest));
    return !can_afford();
  });
  std::stable_sort(found.begin(), found.end(), better);
  return found;
}

bool FoundMoves::improve(const StagePlan& neighbour, Candidate& best) {
  JudgedPlan judged = judge_.find_rows(neighbour, options_.actions / kTries, best.plan.step_ns);
  if (!judged || !better(*judged, best.plan)) return false;
  best = {*std::move(judged), best.from};
  return true;
}

void FoundMoves::climb(const StagePlan& start, Candidate& best) {
  tried_.insert(structure(start));
  StagePlan current = start;
  for (bool moved = true; moved;) {
    moved = false;
    for (const StagePlan& next : neighbours(current, best.plan.step_ns)) {
      if (!can_afford()) return;
      tried_.insert(structure(next));
      if (!improve(next, best)) continue;
      current = best.plan;
      moved = true;
      break;
    }
  }
}

}  // namespace rannc::partition
