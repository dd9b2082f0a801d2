#include "tools/run/run_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "partition/schedule/simulate.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

using ir::ActionKind;
using partition::ScheduleCosts;
using runtime::ActionRecord;

/// Mean of several durations.
struct Mean {
  double sum = 0;
  uint64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

/// Measured times by stage and by device.
struct Measured {
  std::vector<std::map<ActionKind, Mean>> stages;
  std::vector<double> busy_ns;  ///< per step
};

double worked_ns(const ActionRecord& record) {
  return static_cast<double>(record.end_ns - record.start_ns - record.waited_ns);
}

Measured measure(const ir::Plan& plan, const std::vector<ActionRecord>& records) {
  Measured found{std::vector<std::map<ActionKind, Mean>>(plan.stages.size()),
                 std::vector<double>(plan.devices.size(), 0)};
  uint64_t first = UINT64_MAX, last = 0;
  for (const ActionRecord& record : records) {
    first = std::min(first, record.step);
    last = std::max(last, record.step);
  }
  const uint64_t from = first < last ? first + 1 : first;
  for (const ActionRecord& record : records) {
    if (record.step < from || !ir::is_work(record.action.kind)) continue;
    found.stages[record.action.stage.index()][record.action.kind].add(worked_ns(record));
    found.busy_ns[record.device.index()] += worked_ns(record) / static_cast<double>(last - from + 1);
  }
  return found;
}

ScheduleCosts costs_of(const Measured& measured) {
  ScheduleCosts costs;
  for (const auto& stage : measured.stages) {
    partition::ComputeTimes times;
    double step = 0;
    for (const auto& [kind, mean] : stage) {  // an I after a B, in place of it
      if (ir::is_update(kind)) {
        step = std::max(step, mean.value());
      } else if (mean.value() > 0) {
        times.*partition::time_of(ir::first_pass(kind)) = mean.value();
      }
    }
    costs.compute.push_back({times});
    costs.step.push_back(step);
  }
  return costs;
}

// Sets every stage to the mean.
ScheduleCosts even(ScheduleCosts costs) {
  const double share = 1.0 / static_cast<double>(costs.compute.size());
  partition::ComputeTimes mean;
  double step = 0;
  for (size_t s = 0; s < costs.compute.size(); ++s) {
    const partition::ComputeTimes& own = costs.compute[s].front();
    mean.forward += share * own.forward;
    mean.input_gradient += share * own.input_gradient;
    mean.weight_gradient += share * own.weight_gradient;
    mean.recompute += share * own.recompute;
    step += share * costs.step[s];
  }
  for (auto& stage : costs.compute) stage = {mean};
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
  const ScheduleCosts costs = costs_of(measured);
  RANNC_ASSIGN(advice.step_ns, simulated(costs));
  advice.bottleneck = bottleneck(plan, measured, measured_ns);
  advice.remedies.push_back({"free messages, and no waiting for other work of the machine", advice.step_ns});
  if (plan.stages.size() > 1) {
    RANNC_ASSIGN(const double level, simulated(even(costs)));
    advice.remedies.push_back({"in addition, stages of equal work", level});
    double work = 0;
    for (const double busy : measured.busy_ns) work += busy;
    advice.remedies.push_back({"in addition, no bubble (more, smaller micro-batches; another schedule)",
                               work / static_cast<double>(plan.devices.size())});
  }
  ScheduleCosts stepless = costs;
  std::fill(stepless.step.begin(), stepless.step.end(), 0);
  RANNC_ASSIGN(const double without, simulated(stepless));
  advice.remedies.push_back({"free messages and a free optimizer", without});
  std::stable_sort(advice.remedies.begin(), advice.remedies.end(),
                   [](const Remedy& a, const Remedy& b) { return a.step_ns < b.step_ns; });
  return advice;
}

}  // namespace rannc::tools
