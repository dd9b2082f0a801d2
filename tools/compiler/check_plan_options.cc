#include "tools/compiler/check_plan_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "partition/schedule/family.h"
#include "partition/stages/registry.h"
#include "tools/common/option_ranges.h"
#include "tools/compiler/requested_plan.h"

namespace rannc::tools {

namespace {

using compiler::Objective;
using compiler::PlanOptions;

/// A table of options (`PlanOptions::rows`) that looks for an option that is not the default although a saved plan
/// decides it.
class DecidedBySavedPlan {
 public:
  explicit DecidedBySavedPlan(const PlanOptions& options) : options_(options) {}
  void group(const char* /*name*/) {}
  template <class T, class... More>
  void row(const compiler::OptionRow& row, T PlanOptions::*member, const More&... /*more*/) {
    if ((row.inputs & compiler::kSavedPlan) == 0 && options_.*member != defaults_.*member) flag_ = row.flag;
  }
  const std::string& flag() const { return flag_; }

 private:
  const PlanOptions& options_;
  const PlanOptions defaults_;
  std::string flag_;
};

Result<void> check_names(const PlanOptions& options) {
  const auto planners = partition::stage_planner_names();
  if (std::find(planners.begin(), planners.end(), options.planner) == planners.end()) {
    return error(fmt::format("--planner: unknown planner '{}'; the planners are {}", options.planner,
                             fmt::join(planners, ", ")));
  }
  using Costs = compiler::Costs;
  if (options.costs == Costs::kDatabase && options.cost_database.empty()) {
    return error("--costs: the file of the profile database is missing");
  }
  const bool uses_file = options.costs == Costs::kDatabase || options.costs == Costs::kMeasured;
  if (!uses_file && !options.cost_database.empty()) {
    return error(fmt::format("--costs {}: a profile database is given, but not requested", options.cost_database));
  }
  return {};
}

Result<void> check_schedules(const PlanOptions& options) {
  using Needs = partition::ScheduleFamily::Needs;
  bool table = false;
  for (const std::string& schedule : options.schedules) {
    if (partition::find_schedule(schedule) == nullptr) {
      return error(fmt::format("--schedule: unknown schedule '{}'; the schedules are {}", schedule,
                               fmt::join(partition::schedule_names(), ", ")));
    }
    table = table || partition::schedule_needs(schedule, Needs::kTable);
  }
  if (table && options.schedules.size() > 1)
    return error("--schedule table cannot be combined with other schedules: it is a hand-written schedule");
  if (table && options.schedule_file.empty()) return error("--schedule table needs --schedule-file FILE");
  if (!table && !options.schedule_file.empty()) return error("--schedule-file needs --schedule table");
  if (options.planner != "auto" && options.schedules.size() > 1) {
    return error(fmt::format("--schedule {}: planner {} does not choose a schedule; name one, or use planner auto",
                             fmt::join(options.schedules, ","), options.planner));
  }
  return {};
}

bool is_allowed(const PlanOptions& options, std::string_view schedule) {
  return std::find(options.schedules.begin(), options.schedules.end(), schedule) != options.schedules.end();
}

Result<void> check_schedule_parameters(PlanOptions& options) {
  if (options.periods && !is_allowed(options, "k-periodic")) return error("--periods needs --schedule k-periodic");
  const bool periodic =
      is_allowed(options, "1f1b-star") || is_allowed(options, "k-periodic") || is_allowed(options, "periodic");
  if (options.period_ns && !periodic) return error("--period needs --schedule 1f1b-star, k-periodic or periodic");
  if (options.warm_up.empty()) return {};
  if (!is_allowed(options, "warmup")) return error("--warm-up needs --schedule warmup");
  if (!options.stages) options.stages = static_cast<uint32_t>(options.warm_up.size());
  if (*options.stages != options.warm_up.size())
    return error(fmt::format("--warm-up has {} depths for {} stages", options.warm_up.size(), *options.stages));
  if (std::is_sorted(options.warm_up.rbegin(), options.warm_up.rend())) return {};
  return error(fmt::format("--warm-up {}: a stage cannot be deeper than the stage before it, which would wait for ever",
                           fmt::join(options.warm_up, ",")));
}

/// Checks that some allowed schedule places that many stages on a device.
Result<void> check_stages_per_device(const PlanOptions& options) {
  using partition::StageLayout;
  if (!options.stages_per_device) return {};
  const uint32_t wanted = *options.stages_per_device;
  const auto places = [wanted](StageLayout layout) {
    if (layout == StageLayout::kOnePerRank) return wanted == 1;
    if (layout == StageLayout::kV) return wanted == 2;
    return layout == StageLayout::kAny || wanted >= 2;
  };
  std::vector<std::string_view> fitting;
  for (const partition::ScheduleFamily& family : partition::schedule_families()) {
    if (places(family.layout)) fitting.push_back(family.name);
  }
  const auto fits = [&](const std::string& name) { return places(partition::find_schedule(name)->layout); };
  if (options.schedules.empty() || std::any_of(options.schedules.begin(), options.schedules.end(), fits)) return {};
  return error(
      fmt::format("--stages-per-device {}: needs --schedule with one of {}", wanted, fmt::join(fitting, ", ")));
}

Result<void> check_stages(PlanOptions& options) {
  if (!options.replicas.empty()) {
    if (!options.stages) options.stages = static_cast<uint32_t>(options.replicas.size());
    if (*options.stages != options.replicas.size()) {
      return error(fmt::format("--replicas has {} counts for {} stages", options.replicas.size(), *options.stages));
    }
  }
  if (options.stages && options.max_stages && *options.stages > *options.max_stages) {
    return error(fmt::format("{} stages exceed --max-stages {}", *options.stages, *options.max_stages));
  }
  if (!options.pins.empty() && !options.stages) return error("--pin needs --stages");
  return {};
}

Result<void> check_planner(const PlanOptions& options) {
  if (!options.lost.empty() && options.planner != "auto")
    return error(fmt::format("--lost: planner {} does not plan from the last plan; use planner auto", options.planner));
  if (options.planner == "auto" || options.planner == "exact") return {};
  if (options.objective != Objective::kStep) {
    const char* const names[] = {"step", "period", "load", "memory"};
    return error(fmt::format("--objective {}: planner {} has a fixed objective; use planner auto",
                             names[static_cast<size_t>(options.objective)], options.planner));
  }
  const auto unsupported = [&](const char* flag) {
    return error(fmt::format("{}: planner {} does not support it", flag, options.planner));
  };
  if (options.step_limit_ns) return unsupported("--step-limit");
  if (options.search_budget) return unsupported("--search-budget");
  return {};
}

/// With a saved plan, whatever the plan decides has its default.
Result<void> check_saved_plan(const PlanOptions& options) {
  if (options.plan.empty()) return {};
  using compiler::Recompute;
  DecidedBySavedPlan decided(options);
  PlanOptions::rows(decided);
  std::string flag = decided.flag();
  if (options.recompute != Recompute::kAuto && options.recompute != Recompute::kSelective) flag = "--recompute";
  if (flag.empty()) return {};
  return error(flag + ": the plan of --plan decides; edit its file, or leave out the flag");
}

}  // namespace

Result<PlanOptions> checked(PlanOptions options) {
  RANNC_TRY(check_saved_plan(options));
  if (options.recompute_budget && options.recompute != compiler::Recompute::kSelective)
    return error("--recompute-budget needs --recompute selective");
  RANNC_TRY(check_ranges(options));
  RANNC_TRY(check_names(options));
  RANNC_TRY(check_schedules(options));
  RANNC_TRY(check_schedule_parameters(options));
  RANNC_TRY(check_stages_per_device(options));
  RANNC_TRY(check_stages(options));
  const uint32_t samples = options.mini_batch.value_or(kMiniBatch);
  for (const uint64_t count : options.micro_batches) {
    if (count <= samples) continue;
    return error(fmt::format("--micro-batches {}: exceeds the {} samples of --mini-batch", count, samples));
  }
  RANNC_TRY(check_planner(options));
  return options;
}

}  // namespace rannc::tools
