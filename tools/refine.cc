#include "tools/refine.h"

#include <fmt/format.h>

#include <filesystem>

#include "codegen/bundle_writer.h"
#include "partition/stages/cluster_links.h"
#include "runtime/measure_stages.h"
#include "tools/machine.h"
#include "tools/scratch.h"
#include "tools/units.h"

namespace rannc::tools {

namespace {

double memory_of_all(const ir::Plan& plan) {
  double total = 0;
  for (const ir::Prediction& prediction : plan.predictions) total += static_cast<double>(prediction.peak_bytes);
  return total;
}

// As `partition::predict`, but with optimizers as they were measured.
Result<void> predict(partition::PlannedModel& planned, const partition::Cluster& cluster,
                     const std::vector<int64_t>& optimizer_ns) {
  ir::Plan& plan = planned.plan;
  partition::ScheduleCosts costs = partition::schedule_costs(plan, cluster);
  for (size_t s = 0; s < optimizer_ns.size(); ++s) costs.step[s] = static_cast<double>(optimizer_ns[s]);
  partition::SimulationOptions simulation;
  simulation.contention = partition::contended(plan.schedule);
  RANNC_ASSIGN(planned.timeline, partition::simulate(ir::pipeline_shape(plan), plan.schedule, costs, simulation));
  for (size_t d = 0; d < plan.predictions.size(); ++d) {
    plan.predictions[d].busy_ns = static_cast<int64_t>(planned.timeline.devices[d].busy);
  }
  plan.step_ns = static_cast<int64_t>(planned.timeline.makespan);
  return {};
}

}  // namespace

Result<bool> refine_prediction(partition::PlannedModel& planned, const partition::PlanOptions& options,
                               const RefineProgress& progress) {
  if (!options.cluster.name.starts_with("local:")) return false;
  const double needed = memory_of_all(planned.plan), free = static_cast<double>(free_memory_bytes());
  if (needed > free) {
    if (progress.remark) {
      progress.remark(fmt::format("the stages were not measured side by side: together they need {}, {} are free here",
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
  RANNC_TRY(codegen::write_bundle(planned.plan, {}, path));
  RANNC_ASSIGN(const runtime::Bundle bundle, runtime::open_bundle(path));
  RANNC_ASSIGN(runtime::MeasuredStages measured, runtime::measure_stages(bundle, options.assume, say));
  planned.plan.stage_times = std::move(measured.stage_times);
  RANNC_TRY(predict(planned, options.cluster, measured.optimizer_ns));
  planned.plan.lower_bound_ns = 0;
  return true;
}

}  // namespace rannc::tools
