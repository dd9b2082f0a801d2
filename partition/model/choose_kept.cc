// Walks along the hulls of recompute choices until the rows of a plan fit its devices.
#include "partition/model/choose_kept.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ir/plan/functions.h"
#include "ir/schedule/dependencies.h"
#include "ir/schedule/schedule_memory.h"
#include "partition/schedule/family.h"

namespace rannc::partition {

namespace {

using Kept = std::optional<std::vector<ValueId>>;

constexpr int64_t kLastResort = std::numeric_limits<int64_t>::max() / 2;  // time of a choice that no budget allows

/// A choice of a stage, with its functions and times once they are known.
struct Choice {
  Kept kept;  ///< nothing: no recompute
  int64_t bytes = 0, ns = 0;
  std::shared_ptr<const ir::StageFunctions> functions;
  std::vector<ir::StageTime> times;
};

class KeptSearch {
 public:
  KeptSearch(ir::Plan& plan, StagePricer& pricer, const PlanOptions& options, const MakeRows& make_rows)
      : plan_(plan), pricer_(pricer), options_(options), make_rows_(make_rows), choices_(plan.stages.size()) {}

  Result<void> run() {
    at_.assign(plan_.stages.size(), 0);
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (plan_.stages[s].recompute || options_.recompute_budget) add_choices(StageId::from(s));
      if (choices_[s].empty()) choices_[s].push_back({plan_.functions[s]->kept, 0, 0, plan_.functions[s], {}});
      at_[s] = choices_[s].size() - 1;
      RANNC_TRY(apply(s));
      if (options_.recompute_budget) RANNC_TRY(start_within_budget(s));
    }
    for (;;) {
      RANNC_ASSIGN(const std::vector<DeviceId> full, full_devices());
      RANNC_ASSIGN(const bool changed, save_memory(full));
      if (!changed) break;
    }
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      if (!plan_.stages[s].recompute || repeats(s)) continue;
      plan_.stages[s].recompute = false;
      plan_.functions[s] = ir::with_kept(*plan_.functions[s], std::nullopt);
    }
    return {};
  }

 private:
  /// Whole recompute first, then the hull by ascending bytes.
  void add_choices(StageId stage) {
    const ir::Joint& joint = plan_.functions[stage.index()]->joint;
    std::vector<Choice>& choices = choices_[stage.index()];
    choices.push_back({ir::kept_by_whole_recompute(joint), 0, kLastResort, {}, {}});
    for (ir::KeptChoice& point : options_.recompute_choices(joint, pricer_.recompute_costs(plan_, stage))) {
      Kept kept;
      if (point.recompute_ns > 0) kept = std::move(point.kept);
      if (kept == choices.front().kept) choices.pop_back();
      choices.push_back({std::move(kept), point.kept_bytes, point.recompute_ns, {}, {}});
    }
    if (choices.size() == 2 && !choices[1].kept) choices.erase(choices.begin());  // recompute saves nothing
    if (choices.size() > 1 && choices[0].ns == kLastResort) choices[0].bytes = choices[1].bytes;
  }

  /// Makes the current choice of a stage that of the plan.
  Result<void> apply(size_t s) {
    Choice& choice = choices_[s][at_[s]];
    if (!choice.functions) choice.functions = ir::with_kept(*plan_.functions[s], choice.kept);
    plan_.functions[s] = choice.functions;
    plan_.stages[s].recompute = choice.kept.has_value();
    if (choice.times.empty()) {
      RANNC_ASSIGN(choice.times, pricer_.price(plan_, StageId::from(s)));
    }
    return {};
  }

  Result<void> start_within_budget(size_t s) {
    const ir::StageTime& time = choices_[s][at_[s]].times.front();
    const double budget = *options_.recompute_budget * static_cast<double>(time.forward_ns + time.backward_ns);
    // The hull counts no time for views, the price of R does.
    const auto exceeds = [budget](int64_t ns) { return static_cast<double>(ns) > budget; };
    while (at_[s] > 0 && !exceeds(choices_[s][at_[s] - 1].ns)) {
      --at_[s];
      RANNC_TRY(apply(s));
      if (!exceeds(choices_[s][at_[s]].times.front().rebuild_ns)) continue;
      ++at_[s];
      break;
    }
    return apply(s);
  }

  int64_t limit(size_t device) const {
    const uint64_t own = plan_.devices[device].memory_bytes;
    const uint64_t demanded = options_.constraints.memory_bytes.value_or(0);
    return static_cast<int64_t>(own == 0 || demanded == 0 ? std::max(own, demanded) : std::min(own, demanded));
  }

  /// Devices whose rows exceed their memory.
  Result<std::vector<DeviceId>> full_devices() {
    plan_.stage_times.clear();
    for (size_t s = 0; s < choices_.size(); ++s) {
      const auto& times = choices_[s][at_[s]].times;
      plan_.stage_times.insert(plan_.stage_times.end(), times.begin(), times.end());
    }
    const ir::PipelineShape shape = ir::pipeline_shape(plan_);
    RANNC_ASSIGN(rows_, make_rows_(plan_, shape));
    const ir::Dependencies dependencies(shape);
    std::vector<DeviceId> found;
    for (size_t d = 0; d < plan_.devices.size(); ++d) {
      const DeviceId device = DeviceId::from(d);
      if (limit(d) > 0 && ir::row_peak(dependencies, rows_, device) > limit(d)) found.push_back(device);
    }
    return found;
  }

  /// Whether some micro-batch of a stage has an R. None has where every backward pass follows at once.
  bool repeats(size_t s) const {
    const auto& row = rows_.rows[plan_.stages[s].devices.front().index()];
    return std::any_of(row.begin(), row.end(), [&](const ir::Action& action) {
      return action.kind == ir::ActionKind::kRecompute && action.stage.index() == s;
    });
  }

  /// Bytes that the next choice of a stage saves per additional time; negative: there is none.
  double gain(size_t s) const {
    if (at_[s] == 0) return -1;
    const Choice &now = choices_[s][at_[s]], &next = choices_[s][at_[s] - 1];
    return static_cast<double>(now.bytes - next.bytes) / static_cast<double>(std::max<int64_t>(1, next.ns - now.ns));
  }

  /// Moves one stage of each of the devices. Returns whether any could move.
  Result<bool> save_memory(const std::vector<DeviceId>& devices) {
    std::set<size_t> moved;
    for (const DeviceId device : devices) {
      std::optional<size_t> best;
      for (size_t s = 0; s < plan_.stages.size(); ++s) {
        const auto& homes = plan_.stages[s].devices;
        if (std::find(homes.begin(), homes.end(), device) == homes.end() || gain(s) < 0) continue;
        if (!best || gain(s) > gain(*best)) best = s;
      }
      if (best) moved.insert(*best);
    }
    for (const size_t s : moved) {
      --at_[s];
      RANNC_TRY(apply(s));
    }
    return !moved.empty();
  }

  ir::Plan& plan_;
  StagePricer& pricer_;
  const PlanOptions& options_;
  const MakeRows& make_rows_;
  std::vector<std::vector<Choice>> choices_;  ///< by stage
  std::vector<size_t> at_;                    ///< by stage: its current choice
  ir::Schedule rows_;                         ///< of the current choices
};

}  // namespace

Result<void> choose_kept(ir::Plan& plan, StagePricer& pricer, const PlanOptions& options, const MakeRows& make_rows) {
  if (!plan.training || !options.recompute_choices) return {};
  if (options.recompute != RecomputeRule::kChoose) return {};
  const bool none = std::none_of(plan.stages.begin(), plan.stages.end(), [](const auto& s) { return s.recompute; });
  const bool by_hand = schedule_needs(options.schedule, ScheduleFamily::Needs::kTable);  // may have an R anywhere
  const bool whole = none || by_hand || options.objective == Objective::kPeakMemory;
  if (whole && !options.recompute_budget) return {};
  return KeptSearch(plan, pricer, options, make_rows).run();
}

}  // namespace rannc::partition
