#include "tools/compile/stage_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "partition/stages/explain.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using Json = nlohmann::ordered_json;
using partition::StagePlan;
using partition::StageProblem;

std::vector<std::string> device_names(const StageProblem& problem, const partition::PlannedStage& stage) {
  std::vector<std::string> names;
  for (const DeviceId device : stage.devices) names.push_back(problem.cluster.devices[device.index()].name);
  return names;
}

size_t device_count(const StagePlan& plan) {
  std::set<DeviceId> used;
  for (const partition::PlannedStage& stage : plan.stages) used.insert(stage.devices.begin(), stage.devices.end());
  return used.size();
}

}  // namespace

Json stage_plan_json(const StageProblem& problem, const StagePlan& plan, const SearchReport& report) {
  Json stages = Json::array(), others = Json::array();
  for (const partition::PlannedStage& stage : plan.stages) {
    stages.push_back({{"blocks", {stage.first, stage.end}},
                      {"devices", device_names(problem, stage)},
                      {"forward_ns", stage.forward_ns},
                      {"backward_ns", stage.backward_ns},
                      {"all_reduce_ns", stage.all_reduce_ns},
                      {"peak_bytes", stage.peak_bytes},
                      {"recompute", stage.recompute}});
  }
  for (const partition::RunnerUp& other : plan.runners_up) {
    others.push_back({{"what", other.what},
                      {"objective", other.objective > 0 ? Json(other.objective) : Json(nullptr)},
                      {"why", other.why}});
  }
  return {{"planner", plan.planner},
          {"objective_name", plan.objective_name},
          {"objective", plan.objective},
          {"lower_bound", plan.lower_bound},
          {"bound", plan.bound_name},
          {"gap", plan.lower_bound > 0 ? Json(plan.gap()) : Json(nullptr)},
          {"exact", is_exact(plan)},
          {"prices", report.prices},
          {"seconds", report.seconds},
          {"mini_batch", problem.mini_batch},
          {"micro_batches", plan.micro_batches},
          {"schedule", plan.schedule},
          {"warm_up", plan.warm_up},
          {"step_ns", plan.step_ns},
          {"bottleneck", plan.bottleneck},
          {"stages", std::move(stages)},
          {"runners_up", std::move(others)},
          {"warnings", report.warnings}};
}

std::string stage_plan_text(const StageProblem& problem, const StagePlan& plan,
                            const std::vector<std::string>& block_names) {
  std::string text =
      fmt::format("{} blocks, {} stages on {} of {} devices, {} micro-batches of {}, schedule {}\n", problem.blocks,
                  plan.stages.size(), device_count(plan), problem.cluster.size(), plan.micro_batches,
                  (problem.mini_batch + plan.micro_batches - 1) / plan.micro_batches, plan.schedule);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const partition::PlannedStage& stage = plan.stages[s];
    text += fmt::format("  stage {}: {} on {}{}; forward {}, backward {} a micro-batch, all-reduce {}; peak {}\n", s,
                        partition::block_range(stage.first, stage.end, block_names),
                        fmt::join(device_names(problem, stage), ", "), stage.recompute ? ", recompute" : "",
                        duration(stage.forward_ns), duration(stage.backward_ns), duration(stage.all_reduce_ns),
                        bytes(stage.peak_bytes));
  }
  std::string name = plan.objective_name;
  if (name.ends_with(", ns")) name.resize(name.size() - 4);
  text += fmt::format("{}: {}", name, partition::quantity(plan.objective_name, plan.objective));
  if (plan.lower_bound > 0) {
    text += fmt::format("; no plan is below {} ({}): gap {:.2f} %",
                        partition::quantity(plan.objective_name, plan.lower_bound), plan.bound_name, plan.gap() * 100);
  }
  if (plan.step_ns > 0) text += fmt::format("\nsimulated step {}", duration(plan.step_ns));
  return text + "\n";
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
}

}  // namespace rannc::tools
