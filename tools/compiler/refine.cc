#include "tools/compiler/refine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "partition/model/finish_plan.h"
#include "runtime/measure/measure_stages.h"
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

Result<bool> refine_prediction(partition::PlannedModel& planned, const partition::PlanOptions& options,
                               std::optional<codegen::NativeForm> native, const RefineProgress& progress) {
  if (!is_this_processor(options.cluster)) return false;
  const double needed = memory_of_all(planned.plan), free = static_cast<double>(free_memory_bytes());
  if (needed > free) {
    if (progress.remark) {
      progress.remark(
          fmt::format("the stages were not measured side by side: together they need {}, but only {} are free",
                      bytes(needed), bytes(free)));
    }
    return false;
  }
  const auto say = [&](const std::string& what) {
    if (progress.step) progress.step("measuring the stages side by side: " + what);
  };
  say("writing them");
  const Scratch scratch;
  const std::string path = (std::filesystem::path(scratch.path()) / "stages.rannc").string();
  RANNC_TRY(codegen::write_bundle(planned.plan, {.native = std::move(native)}, path));
  RANNC_ASSIGN(const runtime::Bundle bundle, runtime::open_bundle(path));
  RANNC_ASSIGN(runtime::MeasuredStages measured, runtime::measure_stages(bundle, options.assume, say));
  planned.plan.stage_times = std::move(measured.stage_times);
  planned.plan.begin_ns = std::move(measured.begin_ns);
  planned.plan.finish_times = std::move(measured.finish_times);
  for (size_t g = 0; g < measured.shared_ns.size(); ++g) planned.plan.shared[g].sum_ns = measured.shared_ns[g];
  planned.plan.searched_ns = planned.plan.step_ns;
  RANNC_ASSIGN(planned.timeline, partition::predict(planned.plan, options.cluster));
  return true;
}

}  // namespace rannc::tools
