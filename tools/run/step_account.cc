#include "tools/run/step_account.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace rannc::tools {

namespace {

using ir::ActionKind;

/// An action of one step, ns.
struct TimedAction {
  DeviceId device;
  ir::Action action;
  double start = 0;  ///< begins to wait
  double ready = 0;  ///< begins to work
  double end = 0;
};

/// Times at which the actions that others wait for begin.
class Beginnings {
 public:
  explicit Beginnings(const std::vector<TimedAction>& actions) {
    for (const TimedAction& each : actions) {
      const ir::Action& action = each.action;
      if (ir::is_send(action.kind)) sends_[message(action, each.device, action.peer)] = each.start;
      if (ir::is_receive(action.kind)) {
        received_[{each.device, action.stage, action.micro_batch, action.kind}].push_back(action);
      }
      if (ir::is_collective(action.kind)) {
        double& last = joined_.try_emplace(collective(action), each.start).first->second;
        last = std::max(last, each.start);
      }
    }
  }
  /// When the last member joined the sum.
  double joined(const ir::Action& action) const { return joined_.at(collective(action)); }
  /// When the last message was sent that the computation reads; nothing if it reads none.
  std::optional<double> sent(DeviceId device, const ir::Action& action) const {
    std::optional<double> last;
    for (const ActionKind needed : ir::traits(action.kind).needs) {
      const auto received = received_.find({device, action.stage, action.micro_batch, needed});
      if (received == received_.end()) continue;
      for (const ir::Action& receive : received->second) {
        const auto send = sends_.find(message(receive, receive.peer, device));
        if (send != sends_.end()) last = std::max(last.value_or(send->second), send->second);
      }
    }
    return last;
  }

 private:
  /// Whether gradients, route, micro-batch, sender, receiver.
  using Message = std::tuple<bool, uint32_t, uint32_t, DeviceId, DeviceId>;
  static Message message(const ir::Action& action, DeviceId from, DeviceId to) {
    return {!ir::is_activation(action.kind), action.route, action.micro_batch, from, to};
  }
  /// A sum has one bucket of a stage, or one group of a shared parameter.
  using Collective = std::tuple<ActionKind, uint32_t, uint32_t, uint32_t>;
  static Collective collective(const ir::Action& action) {
    const bool shared = action.route != ir::Action::kNone;
    return {action.kind, action.route, shared ? 0 : static_cast<uint32_t>(action.stage.index()), action.micro_batch};
  }

  std::map<Message, double> sends_;
  std::map<std::tuple<DeviceId, StageId, uint32_t, ActionKind>, std::vector<ir::Action>> received_;
  std::map<Collective, double> joined_;
};

StepParts parts_of(const TimedAction& each, const Beginnings& beginnings) {
  StepParts parts;
  const ActionKind kind = each.action.kind;
  if (ir::is_collective(kind)) {
    const double joined = std::clamp(beginnings.joined(each.action), each.start, each.end);
    parts.slowest = joined - each.start;
    parts.messages = each.end - joined;
    return parts;
  }
  const double sent = beginnings.sent(each.device, each.action).value_or(each.start);
  parts.bubble = std::clamp(sent, each.start, each.ready) - each.start;
  parts.messages = each.ready - each.start - parts.bubble;
  (ir::is_work(kind) ? parts.compute : parts.messages) += each.end - each.ready;
  return parts;
}

/// Accounts for the actions of one step, which are in order on each device.
StepAccount account(const std::vector<TimedAction>& actions, uint32_t devices) {
  StepAccount found;
  found.devices.resize(devices);
  if (actions.empty()) return found;
  double begin = actions.front().start, end = actions.front().end;
  for (const TimedAction& each : actions) {
    begin = std::min(begin, each.start);
    end = std::max(end, each.end);
  }
  found.step_ns = end - begin;
  const Beginnings beginnings(actions);
  std::vector<double> until(devices, begin);
  for (TimedAction each : actions) {
    double& before = until[each.device.index()];
    const double between = std::max(0.0, each.start - before);
    each.start = std::max(each.start, before);
    each.ready = std::max(each.ready, each.start);
    each.end = std::max(each.end, each.ready);
    StepParts parts = parts_of(each, beginnings);
    parts.between = between;
    before = each.end;
    found.devices[each.device.index()] += parts;
    found.actions.push_back({each.device, each.action, parts});
  }
  for (uint32_t device = 0; device < devices; ++device) found.devices[device].slowest += end - until[device];
  return found;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Of a computation its work, of a sum its exchange.
double duration_of(const AccountedAction& each) {
  return ir::is_collective(each.action.kind) ? each.parts.messages : each.parts.compute;
}

using ActionKey = std::tuple<DeviceId, ActionKind, uint32_t, StageId, uint32_t, DeviceId>;
ActionKey key_of(const AccountedAction& each) {
  const ir::Action& action = each.action;
  return {each.device, action.kind, action.route, action.stage, action.micro_batch, action.peer};
}

StepParts medians(const std::vector<StepParts>& all) {
  const auto of = [&](double StepParts::*part) {
    std::vector<double> values;
    for (const StepParts& each : all) values.push_back(each.*part);
    return median(std::move(values));
  };
  return {of(&StepParts::compute), of(&StepParts::messages), of(&StepParts::bubble), of(&StepParts::slowest),
          of(&StepParts::between)};
}

void add_actions(const StepAccount& planned, const std::vector<StepAccount>& measured, PlannedBesideActual& found) {
  std::map<ActionKey, std::vector<StepParts>> parts;
  for (const StepAccount& step : measured) {
    for (const AccountedAction& each : step.actions) parts[key_of(each)].push_back(each.parts);
  }
  std::vector<double> differences;
  for (const AccountedAction& each : planned.actions) {
    const StepParts actual = medians(parts[key_of(each)]);
    found.actions.push_back({each.device, each.action, each.parts, actual});
    if (ir::is_work(each.action.kind) && each.parts.compute > 0 && actual.compute > 0)
      differences.push_back(std::abs(actual.compute / each.parts.compute - 1));
  }
  found.median_difference = median(std::move(differences));
}

void add_rows(const ir::Plan& plan, const StepAccount& planned, const std::vector<StepAccount>& measured,
              PlannedBesideActual& found) {
  struct Collected {
    std::vector<double> planned_ns, measured_ns;
    StepParts parts;
  };
  std::map<std::pair<StageId, ActionKind>, Collected> rows;
  const auto has_row = [](ActionKind kind) { return ir::is_work(kind) || ir::is_collective(kind); };
  for (const AccountedAction& each : planned.actions) {
    if (has_row(each.action.kind)) rows[{each.action.stage, each.action.kind}].planned_ns.push_back(duration_of(each));
  }
  for (const StepAccount& step : measured) {
    for (const AccountedAction& each : step.actions) {
      if (!has_row(each.action.kind)) continue;
      Collected& row = rows[{each.action.stage, each.action.kind}];
      row.measured_ns.push_back(duration_of(each));
      row.parts += each.parts;
    }
  }
  for (auto& [key, row] : rows) {
    const double devices = static_cast<double>(plan.stages[key.first.index()].devices.size());
    const double share = 1 / (devices * std::max(1.0, static_cast<double>(measured.size())));
    const auto count = static_cast<uint32_t>(row.planned_ns.size());
    found.rows.push_back({key.first, key.second, count, median(std::move(row.planned_ns)),
                          median(std::move(row.measured_ns)), row.parts.scaled(share)});
  }
}

}  // namespace

StepParts& StepParts::operator+=(const StepParts& other) {
  compute += other.compute;
  messages += other.messages;
  bubble += other.bubble;
  slowest += other.slowest;
  between += other.between;
  return *this;
}

StepParts StepParts::scaled(double factor) const {
  return {compute * factor, messages * factor, bubble * factor, slowest * factor, between * factor};
}

StepAccount planned_account(const std::vector<runtime::PlannedSpan>& planned, uint32_t devices) {
  std::vector<double> until(devices, 0);
  std::vector<TimedAction> actions;
  for (const runtime::PlannedSpan& span : planned) {
    double& before = until[span.device.index()];
    // Sends and receives last until the message has arrived, but do not occupy the device.
    if (ir::is_message(span.action.kind)) {
      actions.push_back({span.device, span.action, before, before, before});
      continue;
    }
    // A sum begins when the last member joins; this one joined when its device was free. Sums may overlap each other.
    actions.push_back({span.device, span.action, before, span.start_ns, span.end_ns});
    before = std::max(before, span.end_ns);
  }
  return account(actions, devices);
}

std::vector<StepAccount> measured_accounts(const std::vector<runtime::ActionRecord>& records, uint32_t devices) {
  std::map<uint64_t, std::vector<TimedAction>> steps;
  for (const runtime::ActionRecord& record : records) {
    const auto start = static_cast<double>(record.start_ns), end = static_cast<double>(record.end_ns);
    steps[record.step].push_back(
        {record.device, record.action, start, std::min(end, start + static_cast<double>(record.waited_ns)), end});
  }
  if (steps.size() > 1) steps.erase(steps.begin());
  std::vector<StepAccount> found;
  for (const auto& [step, actions] : steps) found.push_back(account(actions, devices));
  return found;
}

PlannedBesideActual planned_beside_actual(const ir::Plan& plan, const std::vector<runtime::PlannedSpan>& planned,
                                          const std::vector<runtime::ActionRecord>& records) {
  const auto devices = static_cast<uint32_t>(plan.devices.size());
  const StepAccount expected = planned_account(planned, devices);
  const std::vector<StepAccount> measured = measured_accounts(records, devices);
  PlannedBesideActual found;
  found.steps = measured.size();
  found.planned_step_ns = expected.step_ns;
  found.devices.resize(devices);
  const double share = 1 / std::max(1.0, static_cast<double>(measured.size()));
  for (uint32_t device = 0; device < devices; ++device) {
    found.devices[device].planned = expected.devices[device];
    for (const StepAccount& step : measured) found.devices[device].measured += step.devices[device].scaled(share);
  }
  for (const StepAccount& step : measured) found.measured_step_ns += step.step_ns * share;
  add_actions(expected, measured, found);
  add_rows(plan, expected, measured, found);
  return found;
}

}  // namespace rannc::tools
