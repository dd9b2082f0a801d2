/// Profiles training steps by kind of work and by task of the model.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "ir/plan/plan.h"
#include "runtime/execute/executor.h"

namespace rannc::tools {

/// Profiles every second step of this process. The other steps run without a profile, which shows its overhead. At most
/// one object may exist, since LibTorch's callbacks have no state. The threads that run operators notify it of actions,
/// which it forwards to `next`. Requires that `MemoryGauge` is installed and that programs keep their origins.
class StepProfile final : public runtime::Observer {
 public:
  /// Number of first steps that do not count: they allocate what later steps reuse.
  static constexpr uint64_t kWarmUp = 2;
  /// Minimum number of steps: after the warm-up, one with and one without a profile.
  static constexpr uint64_t kLeastSteps = kWarmUp + 2;

  /// Measures the rate of a large product with this process's threads and in the types of the plan's parameters.
  StepProfile(const ir::Plan& plan, runtime::Observer& next);
  ~StepProfile() override;

  /// Must be called before and after each step, by the thread that runs the step, while no action runs.
  void begin_step();
  void end_step();
  void started(DeviceId device) override;
  void finished(const runtime::ActionRecord& record) override;
  void clipped(DeviceId device, int64_t start_ns, int64_t end_ns) override;

  /// Returns this process's part of the profile: means over the profiled steps. Each of `devices` has `wall_ns` and its
  /// components in `parts` (`profile_report.h`). Each component is measured separately; tests check that they add up.
  /// `tasks` are in the order of the graph; a replicated or repeated task has the sum of all its runs.
  nlohmann::json part() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rannc::tools
