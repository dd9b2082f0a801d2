#include "partition/stages/search/plan_contest.h"

#include <algorithm>
#include <set>

#include "partition/stages/problem/places.h"

namespace rannc::partition {

bool PlanContest::offer(const StagePlan& plan, const std::string& from) {
  if (!by_device_) finalists_.offer(plan, from);
  if (by_device_) keep_leader({plan, from});
  if (best_ && !better(plan, best_->plan)) return false;
  best_ = Candidate{plan, from};
  return true;
}

void PlanContest::keep_leader(const Candidate& candidate) {
  constexpr size_t kLeaders = 4;
  if (leaders_.size() == kLeaders && !better(candidate.plan, leaders_.back().plan)) return;
  const std::string own = structure(candidate.plan);
  const auto same = std::find_if(leaders_.begin(), leaders_.end(),
                                 [&](const Candidate& other) { return structure(other.plan) == own; });
  if (same != leaders_.end()) {
    if (!better(candidate.plan, same->plan)) return;
    leaders_.erase(same);
  }
  const auto at = std::upper_bound(leaders_.begin(), leaders_.end(), candidate,
                                   [](const Candidate& a, const Candidate& b) { return better(a.plan, b.plan); });
  leaders_.insert(at, candidate);
  if (leaders_.size() > kLeaders) leaders_.pop_back();
}

void PlanContest::keep_runner_up(const StagePlan& plan, const std::string& from) {
  StagePlan& slot = best_of_[from];
  if (slot.stages.empty() || plan.objective < slot.objective) slot = plan;
  keep_start(plan);
}

void PlanContest::keep_start(const StagePlan& plan) {
  const auto [start, fresh] =
      starts_.try_emplace({plan.stages.size(), plan.micro_batches, places_of(plan).count()}, plan);
  if (!fresh && better(plan, start->second)) start->second = plan;
}

std::vector<StagePlan> PlanContest::starts(size_t most) const {
  std::vector<StagePlan> starts;
  for (const auto& [shape, plan] : starts_) starts.push_back(plan);
  std::stable_sort(starts.begin(), starts.end(), better);
  if (starts.size() > most) starts.resize(most);
  return starts;
}

std::vector<StagePlan> PlanContest::finalists_beside(const StagePlan& plan) const {
  constexpr size_t kFinalists = 4;
  std::vector<StagePlan> others = starts(kFinalists);
  for (const Candidate& leader : leaders_) others.push_back(leader.plan);
  std::stable_sort(others.begin(), others.end(), better);
  std::set<std::string> seen = {structure(plan)};
  std::erase_if(others, [&](const StagePlan& other) { return !seen.insert(structure(other)).second; });
  if (others.size() > kFinalists) others.resize(kFinalists);
  return others;
}

void PlanContest::choose_by_device(PlanJudge& judge, uint64_t slots) {
  if (!by_device_) {
    const std::vector<Candidate> judged = finalists_.finished(judge, slots);
    if (judged.empty()) return;
    best_ = judged.front();
    for (const Candidate& one : judged) keep_leader(one);
  }
  for (auto& [from, plan] : best_of_) {
    if (!is_small(plan, slots)) continue;
    if (JudgedPlan judged = judge.judge_by_device(plan)) plan = *std::move(judged);
  }
}

}  // namespace rannc::partition
