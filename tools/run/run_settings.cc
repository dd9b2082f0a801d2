#include "tools/run/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/common/number_checks.h"

namespace rannc::tools {

namespace {

constexpr double kLearningRate = 1e-3;

/// Applies a flag and records whether it changes a checkpoint's setting.
class Override {
 public:
  explicit Override(bool resumed) : resumed_(resumed) {}
  template <class T>
  void operator()(const char* name, const std::optional<T>& flag, T& setting) {
    if (!flag || *flag == setting) return;
    if (resumed_) changed.push_back(fmt::format("{} {} instead of {}", name, *flag, setting));
    setting = *flag;
  }
  std::vector<std::string> changed;

 private:
  bool resumed_;
};

Result<runtime::TrainingSettings> planned_settings(const ir::PlanOptimizer& planned) {
  runtime::TrainingSettings settings;
  RANNC_ASSIGN(settings.optimizer.kind, runtime::parse_optimizer(planned.name.empty() ? "adam" : planned.name));
  settings.optimizer.momentum = planned.momentum;
  settings.optimizer.learning_rate = kLearningRate;
  return settings;
}

}  // namespace

void add_setting_flags(CLI::App& app, SettingFlags& flags) {
  app.add_option("--optimizer", flags.optimizer,
                 "sgd, adam or adamw (default: the optimizer that the bundle was planned for)")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}));
  app.add_option("--learning-rate", flags.learning_rate, fmt::format("learning rate (default: {})", kLearningRate))
      ->transform(positive_number());
  app.add_option("--momentum", flags.momentum, "momentum of sgd (default: the bundle's)")
      ->transform(in_range(NumberRange{0, 0.999999}));
  app.add_option("--weight-decay", flags.weight_decay, "weight decay (default: 0)")->transform(non_negative_number());
  app.add_option("--warmup-steps", flags.warmup_steps, "steps over which the learning rate rises (default: 0)")
      ->transform(whole_number());
  app.add_option("--decay-steps", flags.decay_steps,
                 "step at which the learning rate reaches a tenth (default: no decay)")
      ->transform(whole_number());
  app.add_option("--clip-norm", flags.clip_norm, "maximum global norm of the gradient; 0: unlimited (default: 0)")
      ->transform(non_negative_number());
  app.add_option("--seed", flags.seed, "seed of data and random operators (default: 0)")
      ->transform(whole_number(0, UINT64_MAX));
  app.add_option("--keep", flags.kept_checkpoints,
                 "number of newest checkpoints to keep: older ones are removed after a newer one is complete; 0: all "
                 "(default: 0)")
      ->transform(whole_number());
}

Result<SettingsFound> find_settings(const SettingFlags& flags, const ir::PlanOptimizer& planned,
                                    const runtime::TrainingSettings* checkpoint) {
  SettingsFound found;
  RANNC_ASSIGN(found.settings, planned_settings(planned));
  if (checkpoint != nullptr) found.settings = *checkpoint;
  runtime::OptimizerOptions& optimizer = found.settings.optimizer;
  Override take(checkpoint != nullptr);
  std::string kind(str(optimizer.kind));
  take("optimizer", flags.optimizer, kind);
  RANNC_ASSIGN(optimizer.kind, runtime::parse_optimizer(kind));
  take("learning rate", flags.learning_rate, optimizer.learning_rate);
  if (optimizer.kind != runtime::OptimizerKind::kSgd) {
    if (flags.momentum.value_or(0) != 0) return error(fmt::format("--momentum applies to sgd, not to {}", kind));
    optimizer.momentum = 0;
  }
  take("momentum", flags.momentum, optimizer.momentum);
  take("weight decay", flags.weight_decay, optimizer.weight_decay);
  take("warm-up steps", flags.warmup_steps, optimizer.warmup_steps);
  take("decay steps", flags.decay_steps, optimizer.decay_steps);
  take("clip norm", flags.clip_norm, found.settings.clip_norm);
  take("seed", flags.seed, found.settings.seed);
  take("kept checkpoints", flags.kept_checkpoints, found.settings.kept_checkpoints);
  found.changed = std::move(take.changed);
  return found;
}

std::string describe(const runtime::TrainingSettings& settings) {
  const runtime::OptimizerOptions& optimizer = settings.optimizer;
  std::string text = fmt::format("{}, learning rate {}", str(optimizer.kind), optimizer.learning_rate);
  if (optimizer.momentum != 0) text += fmt::format(", momentum {}", optimizer.momentum);
  if (optimizer.weight_decay != 0) text += fmt::format(", weight decay {}", optimizer.weight_decay);
  if (optimizer.warmup_steps != 0) text += fmt::format(", {} steps of warm-up", optimizer.warmup_steps);
  if (optimizer.decay_steps != 0) text += fmt::format(", decay until step {}", optimizer.decay_steps);
  if (settings.clip_norm != 0) text += fmt::format(", gradients clipped at {}", settings.clip_norm);
  text += fmt::format(", seed {}", settings.seed);
  if (settings.kept_checkpoints != 0) text += fmt::format(", newest {} checkpoints kept", settings.kept_checkpoints);
  return text;
}

}  // namespace rannc::tools
