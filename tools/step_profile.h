/// Says where the time of training steps goes, by kind of work and by task of the model.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/plan.h"
#include "runtime/executor.h"

namespace rannc::tools {

/// Follows operators of this process from `install` on; at most one, since LibTorch's callbacks have no state. It is
/// told of actions by the threads that run operators, and hands each record on to `next`.
class StepProfile : public runtime::Observer {
 public:
  /// The first steps make what later ones reuse: they are not counted.
  static constexpr uint64_t kWarmUp = 2;

  /// Measures what rate a large product reaches with this process's threads, as what shares are of.
  static void install();

  explicit StepProfile(runtime::Observer& next);
  ~StepProfile() override;
  void finished(const runtime::ActionRecord& record) override;
  /// After each step, by the thread that asked for it: what the step took in all.
  void end_step(double wall_ns);

  /// Per device the mean of the counted steps, ns; `unaccounted` is what is left of the wall time, so that the parts
  /// add up to it. Without counted steps `steps` is 0.
  nlohmann::json part(const ir::Plan& plan) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What `part` said of one or more processes, as tables.
std::string profile_text(const nlohmann::json& parts, size_t tasks = 15);

}  // namespace rannc::tools
