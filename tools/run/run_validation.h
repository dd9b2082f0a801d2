/// Validates a model during its training.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/validation.h"
#include "tools/run/run_data.h"

namespace rannc::tools {

/// Forwards the actions of training steps, so that traces and profiles contain no actions of evaluations.
class TrainingActions final : public runtime::Observer {
 public:
  /// `also` receives what `next` receives. Null: nobody else does.
  explicit TrainingActions(runtime::Observer* also) : also_(also) {}
  void forward_to(runtime::Observer* next) { next_ = next; }
  void forward(bool on) { on_ = on; }
  void started(DeviceId device) override {
    if (!on_) return;
    next_->started(device);
    if (also_ != nullptr) also_->started(device);
  }
  void finished(const runtime::ActionRecord& record) override {
    if (!on_) return;
    next_->finished(record);
    if (also_ != nullptr) also_->finished(record);
  }
  void clipped(DeviceId device, int64_t start_ns, int64_t end_ns) override {
    if (!on_) return;
    next_->clipped(device, start_ns, end_ns);
    if (also_ != nullptr) also_->clipped(device, start_ns, end_ns);
  }

 private:
  runtime::Observer* const also_;
  runtime::Observer* next_ = nullptr;
  std::atomic<bool> on_{true};  // changes while no action runs
};

/// The validations of a run. All processes of the run must make the same calls.
class RunValidation {
 public:
  /// Opens the samples that `flags` name.
  static Result<RunValidation> open(const DataFlags& flags, const ir::Plan& plan);

  /// Whether the model is to be validated after `done` of `steps` steps.
  bool due(uint64_t done, uint64_t steps) const;
  /// Validates after `done` steps.
  Result<runtime::ValidationResult> run(runtime::Trainer& trainer, uint64_t done);

  /// «validating every 2 steps on 5 samples»
  std::string describe() const;
  /// «validation after step 20: loss 2.9421, accuracy 31.2 % (128 samples)»
  std::string describe_last() const;
  /// Duration of all validations, and of the last.
  double seconds() const { return seconds_; }
  double last_seconds() const { return last_seconds_; }
  /// Losses by number of steps done.
  const std::vector<std::pair<uint64_t, double>>& losses() const { return losses_; }

 private:
  std::unique_ptr<runtime::Samples> samples_;
  std::vector<std::string> metrics_;
  uint64_t every_ = 0;
  double seconds_ = 0, last_seconds_ = 0;
  runtime::ValidationResult last_;
  std::vector<std::pair<uint64_t, double>> losses_;
};

}  // namespace rannc::tools
