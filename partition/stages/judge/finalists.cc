#include "partition/stages/judge/finalists.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "partition/stages/covers/cover_plan.h"

namespace rannc::partition {
namespace {

constexpr size_t kMost = 6;      ///< finalists besides the plans of rivals
constexpr double kClose = 1.25;  ///< multiple of the best judgement; the two simulations differ by less

uint64_t slots_of(const StagePlan& plan) {
  uint64_t devices = 0;
  for (const PlannedStage& stage : plan.stages) devices += stage.devices.size();
  return devices * plan.micro_batches;
}

bool before(const Candidate& a, const Candidate& b) { return better(a.plan, b.plan); }

std::string describe(const StagePlan& plan) {
  return fmt::format("{} ({} micro-batches, {}{})", brief(plan), plan.micro_batches, plan.schedule,
                     std::any_of(plan.stages.begin(), plan.stages.end(), [](const auto& s) { return s.recompute; })
                         ? ", recompute"
                         : "");
}

}  // namespace

std::string structure(const StagePlan& plan) {
  std::string text = fmt::format("{}", plan.micro_batches);
  for (const PlannedStage& stage : plan.stages) {
    text += fmt::format("|{}{}", stage.end, stage.recompute ? "r" : "");
    for (const DeviceId device : stage.devices) text += fmt::format(",{}", device.index());
  }
  return text;
}

std::string identity(const StagePlan& plan) {
  std::string text = plan.schedule + "|" + structure(plan);
  if (!plan.pattern.empty()) text += "|" + to_string(plan.pattern);
  for (const uint32_t depth : plan.warm_up) text += fmt::format(";{}", depth);
  return text;
}

std::vector<RunnerUp> runners_up(const StagePlan& plan, const std::map<std::string, StagePlan>& best_of) {
  std::vector<RunnerUp> losers;
  for (const auto& [from, other] : best_of) {
    if (identity(other) == identity(plan)) continue;
    losers.push_back({from + ": " + describe(other), other.objective, bottleneck_of(other)});
  }
  return losers;
}

bool is_small(const StagePlan& plan, uint64_t slots) { return slots_of(plan) <= slots / 8; }

void Finalists::offer(const StagePlan& plan, const std::string& from) {
  const auto [entry, fresh] =
      best_.try_emplace({plan.stages.size(), plan.micro_batches, plan.schedule}, Candidate{plan, from});
  if (!fresh && better(plan, entry->second.plan)) entry->second = {plan, from};
}

std::vector<Candidate> Finalists::ranked() const {
  std::vector<Candidate> all;
  for (const auto& [shape, candidate] : best_) all.push_back(candidate);
  std::stable_sort(all.begin(), all.end(), before);
  if (all.size() > kMost) all.resize(kMost);
  all.insert(all.end(), handed_in_.begin(), handed_in_.end());
  std::stable_sort(all.begin(), all.end(), before);
  std::set<std::string> seen;
  std::erase_if(all, [&](const Candidate& one) {
    return one.plan.objective > kClose * all.front().plan.objective || !seen.insert(identity(one.plan)).second;
  });
  return all;
}

std::vector<Candidate> Finalists::finished(PlanJudge& judge, uint64_t slots) const {
  std::vector<Candidate> left;
  uint64_t spent = 0;
  double least = std::numeric_limits<double>::infinity();
  for (Candidate& one : ranked()) {
    spent += slots_of(one.plan);
    if (spent > slots) break;
    JudgedPlan judged = judge.judge_by_device(std::move(one.plan), least * (1 + 1e-6));
    if (!judged) continue;
    one.plan = *std::move(judged);
    least = std::min(least, one.plan.step_ns);
    left.push_back(std::move(one));
  }
  std::stable_sort(left.begin(), left.end(), before);
  return left;
}

}  // namespace rannc::partition
