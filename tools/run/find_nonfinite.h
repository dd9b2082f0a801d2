/// Finds the task that made the first NaN or infinite number of a training step.
#pragma once

#include <memory>

#include "ir/plan/plan.h"
#include "runtime/engine/nonfinite_observer.h"
#include "runtime/train/trainer.h"

namespace rannc::tools {

/// Looks for the source of numbers that are not finite if they reach the loss, a gradient or a weight of a step.
/// Numbers that reach none of these, such as those of an attention mask, are not reported. Neither are those of a step
/// that a loss scale skips.
///
/// A task makes NaN if a result has NaN and nothing that it reads has. It makes infinite numbers if a result has some
/// and it reads neither those nor NaN. Attributes count as read. Named are the first task that made NaN, the first that
/// made infinite numbers, and whether the former read such. First is: forward before backward, then by micro-batch,
/// then by the order of the model.
class NonfiniteFinder final : public runtime::NonfiniteObserver {
 public:
  /// `processes`: of the run. The plan outlives it.
  NonfiniteFinder(const ir::Plan& plan, uint32_t processes);
  ~NonfiniteFinder() override;

  void found(const runtime::NonfiniteValue& value) override;
  /// To be called before each step.
  void begin_step();
  /// To be called after each step, with its mini-batch. Returns an error that names the source. Collective.
  Result<void> check(runtime::Trainer& trainer, const runtime::Batch& batch, const runtime::StepResult& result);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rannc::tools
