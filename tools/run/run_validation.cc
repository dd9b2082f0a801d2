#include "tools/run/run_validation.h"

#include <fmt/format.h>

#include "ir/base/stopwatch.h"

namespace rannc::tools {

Result<RunValidation> RunValidation::open(const DataFlags& flags, const ir::Plan& plan) {
  RunValidation validation;
  validation.every_ = flags.validate_every;
  validation.metrics_ = flags.metrics;
  RANNC_TRY(runtime::check_metrics(plan, flags.metrics));
  RANNC_ASSIGN(validation.samples_, open_validation(flags, plan));
  return validation;
}

bool RunValidation::due(uint64_t done, uint64_t steps) const {
  return done == steps || (every_ > 0 && done % every_ == 0);
}

Result<runtime::ValidationResult> RunValidation::run(runtime::Trainer& trainer, uint64_t done) {
  const Stopwatch watch;
  RANNC_ASSIGN(last_, runtime::validate(trainer, *samples_, metrics_));
  last_seconds_ = watch.seconds();
  seconds_ += last_seconds_;
  losses_.emplace_back(done, last_.loss);
  return last_;
}

std::string RunValidation::describe() const {
  return fmt::format("validating {} on {}",
                     every_ == 0 ? "at the end" : fmt::format("every {} step{}", every_, every_ == 1 ? "" : "s"),
                     samples_->describe());
}

std::string RunValidation::describe_last() const {
  std::string more;
  if (last_.accuracy) more += fmt::format(", accuracy {:.1f} %", 100 * *last_.accuracy);
  for (const auto& [name, mean] : last_.metrics) more += fmt::format(", {} {:.4f}", name, mean);
  return fmt::format("validation after step {}: loss {:.4f}{} ({} samples, {:.1f} s)", losses_.back().first, last_.loss,
                     more, last_.samples, last_seconds_);
}

}  // namespace rannc::tools
