#include "tools/run/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
