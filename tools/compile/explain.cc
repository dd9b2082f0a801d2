#include "tools/compile/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/plan/functions.h"
#include "ir/plan/held_samples.h"
#include "partition/model/compare_asynchronous.h"
#include "partition/stages/explain.h"
#include "partition/stages/registry.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using partition::PlannedModel;

std::vector<std::string> device_names(const ir::Plan& plan, const ir::Stage& stage) {
  std::vector<std::string> names;
  for (const DeviceId device : stage.devices) names.push_back(plan.devices[device.index()].name);
  return names;
}

const ir::StageTime* time_of(const ir::Plan& plan, size_t stage) {
  for (const ir::StageTime& time : plan.stage_times) {
    if (time.stage.index() == stage) return &time;
  }
  return nullptr;
}

// Weights, their gradients and the optimizer's state.
int64_t fixed_bytes(const ir::Plan& plan, size_t stage) {
  const ir::StageShape shape = ir::pipeline_shape(plan).stages[stage];
  return shape.fixed_bytes + shape.gradient_bytes - ir::held_sample_bytes(plan, StageId::from(stage));
}

// Number of micro-batches whose forward pass a stage repeats.
size_t recomputed_micro_batches(const ir::Plan& plan, size_t stage) {
  const auto& row = plan.schedule.rows[plan.stages[stage].devices.front().index()];
  return static_cast<size_t>(std::count_if(row.begin(), row.end(), [&](const ir::Action& action) {
    return action.kind == ir::ActionKind::kRecompute && action.stage.index() == stage;
  }));
}

bool is_selective(const ir::Plan& plan, size_t stage) {
  return !plan.functions.empty() && ir::recomputes_selectively(*plan.functions[stage]);
}

int64_t rebuild_ns(const ir::StageTime& time) { return time.rebuild_ns > 0 ? time.rebuild_ns : time.forward_ns; }

// Describes what a stage recomputes; empty if it recomputes nothing.
std::string recompute_text(const ir::Plan& plan, size_t stage) {
  const ir::StageTime* time = time_of(plan, stage);
  if (!plan.stages[stage].recompute || time == nullptr) return {};
  std::string text = fmt::format("{} for {} of {} micro-batches, {} each",
                                 is_selective(plan, stage) ? "selective recompute" : "recompute",
                                 recomputed_micro_batches(plan, stage), plan.micro_batches.size(),
                                 duration(static_cast<double>(rebuild_ns(*time))));
  if (plan.functions.empty()) return text;
  const auto kept = static_cast<double>(time->kept_bytes), saved = static_cast<double>(time->stashed_bytes);
  return text + fmt::format(", keeps {} instead of {}", bytes(kept), bytes(saved));
}

// Compares the plan's objective with its bound and with two obvious plans.
std::string comparison(const PlannedModel& planned, const SearchReport& report) {
  const partition::StagePlan& plan = planned.stages;
  std::string name = plan.objective_name.substr(0, plan.objective_name.find(", ns"));
  std::string text =
      fmt::format("at {}: {} {}", report.prices, name, partition::quantity(plan.objective_name, plan.objective));
  text +=
      plan.lower_bound > 0
          ? fmt::format("; no plan of these blocks that meets the constraints is below {} ({}): gap {:.2f} %\n",
                        partition::quantity(plan.objective_name, plan.lower_bound), plan.bound_name, plan.gap() * 100)
          : std::string("; this planner provides no bound\n");
  for (const partition::Alternative& other : planned.alternatives) {
    text += fmt::format("  without constraints, {}: {}\n", other.what,
                        other.step_ns > 0
                            ? fmt::format("time of a step {} ({})",
                                          partition::quantity("", static_cast<double>(other.step_ns)), other.remark)
                            : "no plan: " + other.remark);
  }
  return text;
}

// Names a block by the first module in it, else by its first task.
std::vector<std::string> block_names(const PlannedModel& planned, const NodeModules& modules) {
  std::vector<std::string> names(planned.blocks.partition.count), tasks = names;
  const ir::Graph& graph = planned.plan.graph;
  for (size_t atom = planned.plan.atoms.tasks.size(); atom > 0; --atom) {
    const TaskId task = planned.plan.atoms.tasks[atom - 1];
    const uint32_t block = planned.blocks.partition.block_of[atom - 1];
    tasks[block] = partition::task_name(graph, task);
    if (const auto found = modules_of(graph, task, modules); !found.empty()) names[block] = found.front();
  }
  for (size_t block = 0; block < names.size(); ++block) {
    if (names[block].empty()) names[block] = std::move(tasks[block]);
  }
  return names;
}

double received_bytes(const ir::Plan& plan, size_t stage) {
  double total = 0;
  for (const ir::Route& route : plan.routes) {
    if (route.to.index() != stage) continue;
    total += static_cast<double>(route.bytes.evaluate(ir::bindings_of(plan, plan.micro_batches.front())).value_or(0));
  }
  return total;
}

/// Time of tasks that run once per step.
int64_t once_ns(const ir::Plan& plan, size_t stage) {
  return (plan.begin_ns.empty() ? 0 : plan.begin_ns[stage]) +
         (plan.finish_times.empty() ? 0 : plan.finish_times[stage].gradients_ns);
}

/// Names the price of the times of stages where it differs from that of the plan's objective.
std::string_view price_of_stages(const SearchReport& report) {
  return report.measured ? " (measured side by side)" : "";
}

std::string once_text(const ir::Plan& plan, size_t stage) {
  const int64_t ns = once_ns(plan, stage);
  return ns > 0 ? fmt::format(", {} a step on tasks without samples", duration(static_cast<double>(ns))) : "";
}

std::vector<std::string> unused_devices(const PlannedModel& planned) {
  std::vector<std::string> names;
  for (const partition::ClusterDevice& device : planned.problem.cluster.devices) {
    const auto same = [&](const ir::PlanDevice& used) { return used.name == device.name; };
    const auto& used = planned.plan.devices;
    if (std::none_of(used.begin(), used.end(), same)) names.push_back(device.name);
  }
  return names;
}

/// Returns a line about the devices that the plan leaves idle; empty if there is none.
std::string unused_text(const PlannedModel& planned) {
  constexpr size_t kShown = 4;
  const std::vector<std::string> names = unused_devices(planned);
  if (names.empty()) return {};
  const size_t shown = std::min(names.size(), kShown);
  return fmt::format("  unused: {} of {} devices ({}{})\n", names.size(), planned.problem.cluster.size(),
                     fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
                     shown < names.size() ? ", …" : "");
}

}  // namespace

std::string print_blocks(const PlannedModel& planned) {
  const auto& metrics = planned.blocks.metrics;
  std::string text =
      fmt::format("// {} atoms in {} blocks; crossing values {}\n", planned.blocks.partition.block_of.size(),
                  planned.blocks.partition.count, metrics.crossing_values);
  for (uint32_t block = 0; block < planned.blocks.partition.count; ++block) {
    const partition::BlockLoad& load = metrics.blocks[block];
    text += fmt::format(
        "block @b{} atoms {} work_ns {:.0f} resident_bytes {} stashed_bytes {} in_ns {:.0f} out_ns {:.0f} tasks [",
        block, load.tasks, load.work, load.resident_bytes, load.stashed_bytes, load.in, load.out);
    const char* separator = "";
    for (size_t atom = 0; atom < planned.blocks.partition.block_of.size(); ++atom) {
      if (planned.blocks.partition.block_of[atom] != block) continue;
      text += fmt::format("{}#{}", separator, planned.plan.atoms.tasks[atom].index());
      separator = ",";
    }
    text += "]\n";
  }
  return text;
}

std::string summary_text(const PlannedModel& planned, const SearchReport& report) {
  const ir::Plan& plan = planned.plan;
  std::string text =
      fmt::format("{} tasks, {} atoms, {} blocks; {} stages, {} micro-batches of {}, schedule {}\n",
                  plan.graph.task_count(), plan.atoms.tasks.size(), planned.blocks.partition.count, plan.stages.size(),
                  plan.micro_batches.size(), plan.micro_batches.front(), plan.schedule.name);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const ir::StageTime* time = time_of(plan, s);
    const std::vector<std::string> names = device_names(plan, plan.stages[s]);
    const std::string recompute = recompute_text(plan, s);
    text += fmt::format(
        "  stage {}: {} tasks on {}{}{}{}; forward {}, backward {} a micro-batch{}{}; weights and states {}; receives "
        "{}\n",
        s, plan.stages[s].tasks.size(), fmt::join(names, ", "), recompute.empty() ? "" : "; ", recompute,
        plan.stages[s].sharded ? "; optimizer state sharded" : "",
        duration(time ? static_cast<double>(time->forward_ns) : 0),
        duration(time ? static_cast<double>(time->backward_ns) : 0), price_of_stages(report), once_text(plan, s),
        bytes(static_cast<double>(fixed_bytes(plan, s))), bytes(received_bytes(plan, s)));
  }
  text += unused_text(planned);
  text += fmt::format("predicted step {} (bubble {:.0f} %){}\n", duration(static_cast<double>(plan.step_ns)),
                      planned.timeline.bubble * 100,
                      report.measured ? ", stages and optimizers measured side by side" : ", at " + report.prices);
  return text + comparison(planned, report);
}

nlohmann::ordered_json summary_json(const PlannedModel& planned, const SearchReport& report) {
  const ir::Plan& plan = planned.plan;
  nlohmann::ordered_json json = stage_plan_json(planned.problem, planned.stages, report);
  json["mini_batch"] = plan.mini_batch;
  json["micro_batches"] = plan.micro_batches.size();
  json["schedule"] = plan.schedule.name;
  json["step_ns"] = plan.step_ns;
  json["measured"] = report.measured;
  if (plan.searched_ns > 0) json["searched_step_ns"] = plan.searched_ns;
  if (plan.lower_bound_ns > 0) json["step_lower_bound_ns"] = plan.lower_bound_ns;
  json["bubble"] = planned.timeline.bubble;
  json["blocks"] = planned.blocks.partition.count;
  json["atoms"] = plan.atoms.tasks.size();
  json["unused_devices"] = unused_devices(planned);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    auto& stage = json["stages"][s];
    stage["tasks"] = plan.stages[s].tasks.size();
    stage["recompute"] = plan.stages[s].recompute;
    stage["sharded"] = plan.stages[s].sharded;
    if (const int64_t ns = once_ns(plan, s); ns > 0) stage["once_ns"] = ns;
    const ir::StageTime* time = time_of(plan, s);
    if (!plan.stages[s].recompute || time == nullptr) continue;
    stage["selective"] = is_selective(plan, s);
    stage["recomputed_micro_batches"] = recomputed_micro_batches(plan, s);
    stage["recompute_ns"] = rebuild_ns(*time);
    if (plan.functions.empty()) continue;
    stage["kept_bytes"] = time->kept_bytes;
    stage["recomputed_bytes"] = time->stashed_bytes - std::min(time->kept_bytes, time->stashed_bytes);
  }
  auto& others = json["alternatives"] = nlohmann::ordered_json::array();
  for (const partition::Alternative& other : planned.alternatives) {
    others.push_back({{"what", other.what}, {"step_ns", other.step_ns}, {"remark", other.remark}});
  }
  return json;
}

std::string explain(const PlannedModel& planned, const partition::PlanOptions& options, const SearchReport& report,
                    const NodeModules& modules) {
  partition::AutoOptions search = options.search;
  search.starts = {planned.stages};  // a remedy must not be worse than the current plan
  const auto planner =
      options.planner == "auto" ? partition::auto_planner(search) : partition::make_planner(options.planner);
  const auto remedies = planner && !report.stopped ? partition::try_remedies(*planner, planned.problem)
                                                   : std::vector<partition::Remedy>{};
  std::string text = fmt::format("at {}{}:\n", report.prices,
                                 report.measured ? ", unlike the predicted step and the times of stages above" : "");
  text += partition::explain(planned.stages, remedies, block_names(planned, modules));
  for (size_t s = 0; s < planned.plan.stages.size(); ++s) {
    const std::string recompute = recompute_text(planned.plan, s);
    if (!recompute.empty()) text += fmt::format("stage {}: {}\n", s, recompute);
  }
  return text;
}

Result<std::string> asynchronous_text(const ir::Plan& plan, const partition::Cluster& cluster) {
  RANNC_ASSIGN(const auto choices, partition::compare_asynchronous(plan, cluster));
  std::string text = "asynchronous pipelines of these stages (simulated; their numbers are not those of one device):\n";
  text += fmt::format("  {:<15}{:>14}{:>10}{:>12}{:>11}{:>14}  {}\n", "pipeline", "mini-batch", "speed-up", "updates",
                      "staleness", "peak memory", "weight versions by stage");
  for (const partition::PipelineChoice& choice : choices) {
    text += fmt::format("  {:<15}{:>14}{:>10.3f}{:>12}{:>11}{:>14}  {}\n", choice.name, duration(choice.mini_batch_ns),
                        choices.front().mini_batch_ns / choice.mini_batch_ns, choice.updates, choice.staleness,
                        bytes(static_cast<double>(choice.peak_bytes)), fmt::join(choice.weight_versions, " "));
  }
  if (choices.size() < 3) {
    text += fmt::format("  PipeDream-2BW needs at least as many micro-batches as stages: {} < {}\n",
                        plan.micro_batches.size(), plan.stages.size());
  }
  return text;
}

}  // namespace rannc::tools
