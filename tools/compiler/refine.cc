#include "tools/compiler/refine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "partition/model/finish_plan.h"
#include "tools/common/machine.h"
#include "tools/common/scratch.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

double memory_of_all(const ir::Plan& plan) {
  double total = 0;
  for (const ir::Prediction& prediction : plan.predictions) total += static_cast<double>(prediction.peak_bytes);
  return total;
}

bool is_this_processor(const partition::Cluster& cluster) {
  return cluster.name.starts_with("local:") && std::all_of(cluster.kinds.begin(), cluster.kinds.end(), [](auto& kind) {
           return kind.type == ir::DeviceType::kCpu;
         });
}

}  // namespace

PlanRuns::PlanRuns(partition::Cluster cluster, ir::Bindings assume, NativeFormOf native, RefineProgress progress)
    : cluster_(std::move(cluster)),
      assume_(std::move(assume)),
      native_(std::move(native)),
      progress_(std::move(progress)) {}

bool PlanRuns::fits(const ir::Plan& plan) {
  if (!is_this_processor(cluster_)) return false;
  const double needed = memory_of_all(plan), free = static_cast<double>(free_memory_bytes());
  if (needed <= free) return true;
  if (progress_.remark && !std::exchange(remarked_, true)) {
    progress_.remark(
        fmt::format("the stages were not measured side by side: together they need {}, but only {} are free",
                    bytes(needed), bytes(free)));
  }
  return false;
}

Result<runtime::MeasuredStages> PlanRuns::run(const ir::Plan& plan) const {
  const auto say = [&](const std::string& what) {
    if (progress_.step) progress_.step("measuring the stages side by side: " + what);
  };
  say("writing them");
  const Scratch scratch;
  const std::string path = (std::filesystem::path(scratch.path()) / "stages.rannc").string();
  RANNC_ASSIGN(auto native, native_(plan));
  RANNC_TRY(codegen::write_bundle(plan, {.native = std::move(native)}, path));
  RANNC_ASSIGN(const runtime::Bundle bundle, runtime::open_bundle(path));
  return runtime::measure_stages(bundle, assume_, say);
}

Result<const runtime::MeasuredStages*> PlanRuns::measured(const ir::Plan& plan) {
  const std::string key = decisions(plan);
  const auto known = known_.find(key);
  if (known != known_.end()) return &known->second;
  if (kept_ != nullptr) {
    if (auto times = kept_->find(plan, assume_)) return &known_.emplace(key, *std::move(times)).first->second;
  }
  if (!fits(plan)) return nullptr;
  RANNC_ASSIGN(runtime::MeasuredStages times, run(plan));
  if (kept_ != nullptr) kept_->add(plan, assume_, times);
  return &known_.emplace(key, std::move(times)).first->second;
}

Result<std::optional<std::vector<ir::StageTime>>> PlanRuns::measure(const ir::Plan& plan) {
  RANNC_ASSIGN(const runtime::MeasuredStages* const times, measured(plan));
  if (times == nullptr) return std::optional<std::vector<ir::StageTime>>();
  return std::optional(times->stage_times);
}

Result<bool> PlanRuns::refine(partition::PlannedModel& planned) {
  RANNC_ASSIGN(const runtime::MeasuredStages* const times, measured(planned.plan));
  if (times == nullptr) return false;
  planned.plan.stage_times = times->stage_times;
  planned.plan.begin_ns = times->begin_ns;
  planned.plan.finish_times = times->finish_times;
  for (size_t g = 0; g < times->shared_ns.size(); ++g) planned.plan.shared[g].sum_ns = times->shared_ns[g];
  planned.plan.searched_ns = planned.plan.step_ns;
  RANNC_ASSIGN(planned.timeline, partition::predict(planned.plan, cluster_));
  return true;
}

}  // namespace rannc::tools
