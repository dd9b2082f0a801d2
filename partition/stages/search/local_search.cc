#include "partition/stages/search/local_search.h"

#include <algorithm>
#include <functional>

#include "partition/schedule/family.h"
#include "partition/stages/pricing/plan_traffic.h"
#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {

bool deepens_warm_up(const std::string& schedule) { return schedule_needs(schedule, ScheduleFamily::Needs::kWarmUp); }

void LocalSearch::note(const StagePlan& plan) {
  if (!trials_.estimates(plan)) contest_.offer(plan, kOwnSearch);
}

void LocalSearch::confirm(StagePlan plan) {
  if (!trials_.estimates(plan) || plan.objective > contest_.least() * kEstimateSlack) return;
  if (trials_.judged(plan)) contest_.offer(plan, kOwnSearch);
}

void LocalSearch::ascend(StagePlan& current) {
  bool moved = true;
  while (moved && !trials_.share_spent()) {
    moved = any_move(problem_, micro_batches_, current, [&](const StagePlan& next) {
      if (improves(next, current)) return true;
      // A stage with other devices needs other cuts.
      return !trials_.share_spent() && other_devices(next, current) && improves(rebalancer_.balanced(next), current);
    });
  }
}

bool LocalSearch::improves(StagePlan next, StagePlan& current) {
  bool improved = false;
  StagePlan winner = current;
  for (const std::string& schedule : schedules_) {
    if (deepens_warm_up(schedule) && schedules_.size() > 1) continue;
    next.schedule = schedule;
    next.warm_up.clear();
    if (!suits(schedule, next)) continue;
    if (!trials_.can_afford()) return false;
    StagePlan tried = next;
    if (trials_.measured(tried, winner.objective)) {
      if (!trials_.estimates(tried)) contest_.offer_finalist(tried, kOwnSearch);
      if (better(tried, winner)) {
        winner = tried;
        improved = true;
      }
    }
    if (next.stages.size() == 1) break;
  }
  if (improved) {
    current = winner;
    note(winner);
  }
  return improved;
}

void LocalSearch::warm(StagePlan& plan) {
  const auto deepened = std::find_if(schedules_.begin(), schedules_.end(), deepens_warm_up);
  if (plan.stages.size() < 2 || deepened == schedules_.end() || !suits(*deepened, plan)) return;
  if (!problem_.schedule_parameters.warm_up.empty()) return;
  const ChainTimes times = chain_times(problem_, trials_.ranges(), plan);
  if (*std::max_element(times.forward.begin(), times.forward.end()) <= 0) return;
  const uint32_t most = static_cast<uint32_t>(plan.micro_batches);
  for (uint32_t extra = 0; extra < 3; ++extra) {
    StagePlan next = plan;
    next.schedule = *deepened;
    next.warm_up = warmup_by_latency(times);
    for (uint32_t& depth : next.warm_up) depth = std::min<uint32_t>(depth + extra, most);
    if (!trials_.can_afford()) return;
    if (!trials_.measured(next, plan.objective) || !better(next, plan)) continue;
    plan = next;
    note(next);
  }
}

void LocalSearch::step_aside(StagePlan& current, std::mt19937_64& random) {
  uint64_t count = 0;
  any_move(problem_, micro_batches_, current, [&](const StagePlan&) { return ++count == 0; });
  if (count == 0) return;
  uint64_t chosen = random() % count;
  StagePlan beside = current;
  any_move(problem_, micro_batches_, current, [&](StagePlan next) {
    if (chosen-- > 0) return false;
    beside = std::move(next);
    return true;
  });
  current = std::move(beside);
}

bool LocalSearch::search_beside(StagePlan current, uint32_t steps, std::mt19937_64& random) {
  const auto first = std::find_if(schedules_.begin(), schedules_.end(), std::not_fn(deepens_warm_up));
  RANNC_CHECK(first != schedules_.end()) << "no schedule stands without another";
  if (deepens_warm_up(current.schedule)) current.schedule = *first;
  current.warm_up.clear();
  for (uint32_t step = 0; step < steps; ++step) step_aside(current, random);
  if (!trials_.can_afford()) return false;
  if (!suits(current.schedule, current)) {
    const auto other = std::find_if(schedules_.begin(), schedules_.end(),
                                    [&](const auto& name) { return !deepens_warm_up(name) && suits(name, current); });
    if (other == schedules_.end()) return true;
    current.schedule = *other;
  }
  if (!trials_.measured(current)) return true;
  ascend(current);
  if (!trials_.share_spent()) warm(current);
  confirm(current);
  return true;
}

}  // namespace rannc::partition
