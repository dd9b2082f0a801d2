/// Accounts for the time of training steps, planned and measured.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/execute/trace.h"

namespace rannc::tools {

/// Parts of a device's time, ns.
struct StepParts {
  double compute = 0;   ///< forward and backward passes, recompute, optimizer
  double messages = 0;  ///< exposed: not hidden behind computation; sums over replicas included
  double bubble = 0;    ///< no work: other stages had not computed what the action reads
  double slowest = 0;   ///< before a sum over devices for the last of them, and at the end of the step
  double between = 0;   ///< interpreting the schedule, preparing the step, norms for clipping

  double total() const { return compute + messages + bubble + slowest + between; }
  StepParts& operator+=(const StepParts& other);
  StepParts scaled(double factor) const;
};

/// An action with the time from the end of the device's previous action, or the beginning of the step, to its own end.
struct AccountedAction {
  DeviceId device;
  ir::Action action;
  StepParts parts;
};

/// One step.
struct StepAccount {
  std::vector<AccountedAction> actions;  ///< by device, in order
  std::vector<StepParts> devices;        ///< by device: sums of its actions, and its time until the end of the step
  double step_ns = 0;                    ///< the total of every device
};

/// Accounts for a planned step. Messages take no time, since the plan does not contain the cluster's links.
StepAccount planned_account(const std::vector<runtime::PlannedSpan>& planned, uint32_t devices);

/// Accounts for the recorded steps, without the first if there are others. A wait for a message counts as bubble until
/// its sender begins to send, afterwards as message. Clocks of hosts must agree for this division; the sum of both does
/// not depend on them.
std::vector<StepAccount> measured_accounts(const std::vector<runtime::ActionRecord>& records, uint32_t devices);

/// Actions of a kind on a stage.
struct ActionRow {
  StageId stage;
  ir::ActionKind kind = ir::ActionKind::kForward;
  uint32_t count = 0;                      ///< per step, on all devices
  double planned_ns = 0, measured_ns = 0;  ///< medians of the computation, or of a sum's exchange
  StepParts parts;  ///< measured means per step and device of the stage, with what happens before these actions
};

/// What `rannc-run` reports about its steps.
struct PlannedBesideActual {
  std::vector<ActionRow> rows;  ///< by stage and kind
  struct Device {
    StepParts planned, measured;  ///< means per step
  };
  std::vector<Device> devices;
  double planned_step_ns = 0, measured_step_ns = 0;
  uint64_t steps = 0;  ///< that were measured
  /// Median over all computing actions of the relative difference between the median measured and the planned time; 0
  /// if nothing was measured.
  double median_difference = 0;
  /// By device, in order: planned, and the median of each measured part.
  struct Action {
    DeviceId device;
    ir::Action action;
    StepParts planned, measured;
  };
  std::vector<Action> actions;
};

PlannedBesideActual planned_beside_actual(const ir::Plan& plan, const std::vector<runtime::PlannedSpan>& planned,
                                          const std::vector<runtime::ActionRecord>& records);

}  // namespace rannc::tools
