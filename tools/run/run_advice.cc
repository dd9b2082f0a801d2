#include "tools/run/run_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "partition/schedule/simulate.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using ir::ActionKind;
using partition::ScheduleCosts;
using runtime::ActionRecord;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// An action on any replica of its stage.
struct Repeated {
  StageId stage;
  uint32_t micro_batch = 0;
  ActionKind kind = ActionKind::kForward;
  auto operator<=>(const Repeated&) const = default;
};

/// Medians of the steps, so that a step that the machine delayed does not count for all.
struct Measured {
  std::map<Repeated, double> actions;
  std::vector<double> busy_ns;  ///< by device, per step
};

double worked_ns(const ActionRecord& record) {
  return static_cast<double>(record.end_ns - record.start_ns - record.waited_ns);
}

Measured measure(const ir::Plan& plan, const std::vector<ActionRecord>& records) {
  uint64_t first = UINT64_MAX, last = 0;
  for (const ActionRecord& record : records) {
    first = std::min(first, record.step);
    last = std::max(last, record.step);
  }
  const uint64_t from = first < last ? first + 1 : first;
  std::map<Repeated, std::vector<double>> actions;
  std::vector<std::map<uint64_t, double>> busy(plan.devices.size());
  for (const ActionRecord& record : records) {
    if (record.step < from || !ir::is_work(record.action.kind)) continue;
    const ir::Action& action = record.action;
    actions[{action.stage, action.micro_batch, action.kind}].push_back(worked_ns(record));
    busy[record.device.index()][record.step] += worked_ns(record);
  }
  Measured found;
  for (auto& [action, times] : actions) found.actions[action] = median(std::move(times));
  for (const auto& steps : busy) {
    std::vector<double> times;
    for (const auto& [step, ns] : steps) times.push_back(ns);
    found.busy_ns.push_back(median(std::move(times)));
  }
  return found;
}

ScheduleCosts costs_of(const ir::Plan& plan, const Measured& measured) {
  ScheduleCosts costs;
  const size_t stages = plan.stages.size(), count = plan.micro_batches.size();
  costs.compute.assign(stages, std::vector<partition::ComputeTimes>(count));
  costs.step.assign(stages, 0);
  for (uint32_t i = 0; i < count; ++i) costs.size_class.push_back(i);
  for (const auto& [action, ns] : measured.actions) {  // an I after a B, in place of it
    const size_t stage = action.stage.index();
    if (ir::is_update(action.kind)) {
      costs.step[stage] = std::max(costs.step[stage], ns);
    } else if (ns > 0) {
      costs.compute[stage][action.micro_batch].*partition::time_of(ir::first_pass(action.kind)) = ns;
    }
  }
  return costs;
}

// Sets every stage to the mean.
ScheduleCosts even(ScheduleCosts costs) {
  const double share = 1.0 / static_cast<double>(costs.compute.size());
  std::vector<partition::ComputeTimes> mean(costs.compute.front().size());
  double step = 0;
  for (size_t s = 0; s < costs.compute.size(); ++s) {
    for (size_t i = 0; i < mean.size(); ++i) {
      const partition::ComputeTimes& own = costs.compute[s][i];
      mean[i].forward += share * own.forward;
      mean[i].input_gradient += share * own.input_gradient;
      mean[i].weight_gradient += share * own.weight_gradient;
      mean[i].recompute += share * own.recompute;
    }
    step += share * costs.step[s];
  }
  std::fill(costs.compute.begin(), costs.compute.end(), mean);
  std::fill(costs.step.begin(), costs.step.end(), step);
  return costs;
}

std::string bottleneck(const ir::Plan& plan, const Measured& measured, double step_ns) {
  const auto worst = std::max_element(measured.busy_ns.begin(), measured.busy_ns.end());
  const auto device = DeviceId::from(static_cast<size_t>(worst - measured.busy_ns.begin()));
  std::string stages;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& homes = plan.stages[s].devices;
    if (std::find(homes.begin(), homes.end(), device) == homes.end()) continue;
    stages += fmt::format("{}{}", stages.empty() ? "" : ", ", s);
  }
  double mean = 0;
  for (const double busy : measured.busy_ns) mean += busy / static_cast<double>(measured.busy_ns.size());
  return fmt::format(
      "Device {} ({}, stage {}) works for {} of a step of {} ({:.0f} %), {:.2f} times the devices' mean.",
      device.index(), plan.devices[device.index()].name, stages, duration(*worst), duration(step_ns),
      step_ns > 0 ? 100 * *worst / step_ns : 0, mean > 0 ? *worst / mean : 0);
}

}  // namespace

Result<RunAdvice> run_advice(const ir::Plan& plan, const std::vector<ActionRecord>& records, double measured_ns) {
  const Measured measured = measure(plan, records);
  RunAdvice advice;
  if (std::all_of(measured.busy_ns.begin(), measured.busy_ns.end(), [](double busy) { return busy <= 0; }))
    return advice;
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  const auto simulated = [&](const ScheduleCosts& costs) -> Result<double> {
    RANNC_ASSIGN(const partition::Timeline timeline,
                 partition::simulate(shape, plan.schedule, costs, {.memory = false, .spans = false}));
    return timeline.makespan;
  };
  const ScheduleCosts costs = costs_of(plan, measured);
  RANNC_ASSIGN(advice.step_ns, simulated(costs));
  advice.bottleneck = bottleneck(plan, measured, measured_ns);
  // What would take longer than `least` does not help, such as stages of equal work where others have to wait.
  const auto add = [&](std::string what, double step_ns, double least) {
    const bool helps = step_ns <= least;
    if (helps) advice.remedies.push_back({std::move(what), step_ns});
    return helps ? step_ns : least;
  };
  const double free = add("free messages, and no waiting for other work of the machine", advice.step_ns, measured_ns);
  if (plan.stages.size() > 1) {
    RANNC_ASSIGN(const double level, simulated(even(costs)));
    const double equal = add("in addition, stages of equal work", level, free);
    double work = 0;
    for (const double busy : measured.busy_ns) work += busy;
    add("in addition, no bubble (more, smaller micro-batches; another schedule)",
        work / static_cast<double>(plan.devices.size()), equal);
  }
  ScheduleCosts stepless = costs;
  std::fill(stepless.step.begin(), stepless.step.end(), 0);
  RANNC_ASSIGN(const double without, simulated(stepless));
  add("free messages and a free optimizer", without, free);
  std::stable_sort(advice.remedies.begin(), advice.remedies.end(),
                   [](const Remedy& a, const Remedy& b) { return a.step_ns < b.step_ns; });
  return advice;
}

}  // namespace rannc::tools
