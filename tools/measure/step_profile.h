/// Measures where the time of training steps goes, by kind of work and by task of the model.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "ir/plan/plan.h"
#include "runtime/execute/executor.h"

namespace rannc::tools {

/// Follows every second step of this process; the others run as without a profile, and say what following takes. At
/// most one at a time, since LibTorch's callbacks have no state. It is told of actions by the threads that run
/// operators, and hands each on to `next`. The gauge of memory (`MemoryGauge`) is installed, and programs keep their
/// origins.
class StepProfile final : public runtime::Observer {
 public:
  /// The first steps make what later ones reuse: they do not count.
  static constexpr uint64_t kWarmUp = 2;
  /// One of either kind.
  static constexpr uint64_t kLeastSteps = kWarmUp + 2;

  /// Measures what a large product reaches here, with this process's threads and in the types of the plan's parameters.
  StepProfile(const ir::Plan& plan, runtime::Observer& next);
  ~StepProfile() override;

  /// Before and after each step, by the thread that asks for it, between no actions.
  void begin_step();
  void end_step();
  void started(DeviceId device) override;
  void finished(const runtime::ActionRecord& record) override;
  void clipped(DeviceId device, int64_t start_ns, int64_t end_ns) override;

  /// This process's part: means of the followed steps. `devices` have `wall_ns` and, in `parts`, what it consists of
  /// (`profile_report.h`), each measured by itself: that they add up is for tests to see. `tasks` are in the order of
  /// the graph; a replicated or repeated one has the sum of all its runs.
  nlohmann::json part() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rannc::tools
