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

/// Returns an error for a flag that does not apply to the optimizer.
Result<void> take_optimizer(const SettingFlags& flags, runtime::OptimizerOptions& optimizer, Override& take) {
  std::string kind(str(optimizer.kind));
  take("optimizer", flags.optimizer, kind);
  RANNC_ASSIGN(optimizer.kind, runtime::parse_optimizer(kind));
  take("learning rate", flags.learning_rate, optimizer.learning_rate);
  const auto refused = [&](const char* flag, const char* of) {
    return error(fmt::format("{} applies to {}, not to {}", flag, of, kind));
  };
  if (optimizer.kind != runtime::OptimizerKind::kSgd) {
    if (flags.momentum.value_or(0) != 0) return refused("--momentum", "sgd");
    if (flags.nesterov) return refused("--nesterov", "sgd");
    optimizer.momentum = 0;
    optimizer.nesterov = false;
  } else {
    if (!flags.betas.empty()) return refused("--betas", "adam and adamw");
    if (flags.epsilon) return refused("--epsilon", "adam and adamw");
  }
  take("momentum", flags.momentum, optimizer.momentum);
  if (flags.nesterov) take("nesterov", std::optional(true), optimizer.nesterov);
  if (optimizer.nesterov && optimizer.momentum == 0) return error("--nesterov needs --momentum above 0");
  if (!flags.betas.empty()) {
    if (flags.betas.size() != 2) return error(fmt::format("--betas: expected 2 numbers, got {}", flags.betas.size()));
    take("beta1", std::optional(flags.betas[0]), optimizer.beta1);
    take("beta2", std::optional(flags.betas[1]), optimizer.beta2);
  }
  take("epsilon", flags.epsilon, optimizer.epsilon);
  take("weight decay", flags.weight_decay, optimizer.weight_decay);
  return {};
}

/// Whether the decay ends at a step, so that `--decay-steps` applies.
bool ends(runtime::Decay decay) { return decay != runtime::Decay::kConstant && decay != runtime::Decay::kInverseSqrt; }

/// Returns an error for flags of the learning rate that contradict each other.
Result<void> take_rates(const SettingFlags& flags, runtime::OptimizerOptions& optimizer, Override& take) {
  take("warm-up steps", flags.warmup_steps, optimizer.warmup_steps);
  std::string decay(str(optimizer.decay));
  take("decay", flags.decay, decay);
  RANNC_ASSIGN(optimizer.decay, runtime::parse_decay(decay));
  take("start of the decay", flags.decay_from, optimizer.decay_from);
  take("decay steps", flags.decay_steps, optimizer.decay_steps);
  take("final rate", flags.final_rate, optimizer.decay_to);
  for (const auto& [flag, given] : {std::pair{"--decay-steps", flags.decay_steps.value_or(0) != 0},
                                    std::pair{"--decay-from", flags.decay_from.has_value()},
                                    std::pair{"--final-rate", flags.final_rate.has_value()}}) {
    if (given && !ends(optimizer.decay))
      return error(fmt::format("{} applies to cosine, linear and wsd, not to {}", flag, decay));
    if (given && optimizer.decay_steps == 0) return error(fmt::format("{} needs --decay-steps", flag));
  }
  if (flags.decay && ends(optimizer.decay) && optimizer.decay_steps == 0)
    return error(fmt::format("--decay {} needs --decay-steps, the step at which the decay ends", decay));
  const bool turned = flags.decay_from || (flags.decay_steps && optimizer.decay_from != 0);
  if (turned && optimizer.decay_from >= optimizer.decay_steps)
    return error(fmt::format("--decay-from {}: expected a step before that of --decay-steps, {}", optimizer.decay_from,
                             optimizer.decay_steps));
  return {};
}

}  // namespace

Result<SettingsFound> find_settings(const SettingFlags& flags, const ir::PlanOptimizer& planned,
                                    const runtime::TrainingSettings* checkpoint) {
  SettingsFound found;
  RANNC_ASSIGN(found.settings, planned_settings(planned));
  if (checkpoint != nullptr) found.settings = *checkpoint;
  runtime::OptimizerOptions& optimizer = found.settings.optimizer;
  Override take(checkpoint != nullptr);
  RANNC_TRY(take_optimizer(flags, optimizer, take));
  RANNC_TRY(take_rates(flags, optimizer, take));
  take("clip norm", flags.clip_norm, found.settings.clip_norm);
  take("seed", flags.seed, found.settings.seed);
  take("kept checkpoints", flags.kept_checkpoints, found.settings.kept_checkpoints);
  found.changed = std::move(take.changed);
  return found;
}

std::string describe(const runtime::TrainingSettings& settings) {
  const runtime::OptimizerOptions& optimizer = settings.optimizer;
  const runtime::OptimizerOptions standard{};
  std::string text = fmt::format("{}, learning rate {}", str(optimizer.kind), optimizer.learning_rate);
  if (optimizer.momentum != 0)
    text += fmt::format(", {}momentum {}", optimizer.nesterov ? "Nesterov's " : "", optimizer.momentum);
  if (optimizer.beta1 != standard.beta1 || optimizer.beta2 != standard.beta2)
    text += fmt::format(", betas {} and {}", optimizer.beta1, optimizer.beta2);
  if (optimizer.epsilon != standard.epsilon) text += fmt::format(", epsilon {}", optimizer.epsilon);
  if (optimizer.weight_decay != 0) text += fmt::format(", weight decay {}", optimizer.weight_decay);
  if (optimizer.warmup_steps != 0) text += fmt::format(", {} steps of warm-up", optimizer.warmup_steps);
  if (optimizer.decay == runtime::Decay::kInverseSqrt) {
    text += ", falling as the inverse square root of the step";
  } else if (ends(optimizer.decay) && optimizer.decay_steps != 0) {
    text += fmt::format(", {} decay from step {} until step {} to {} of the rate", str(optimizer.decay),
                        optimizer.decay_begin(), optimizer.decay_steps, optimizer.decay_to);
  }
  if (settings.clip_norm != 0) text += fmt::format(", gradients clipped at {}", settings.clip_norm);
  text += fmt::format(", seed {}", settings.seed);
  if (settings.kept_checkpoints != 0) text += fmt::format(", newest {} checkpoints kept", settings.kept_checkpoints);
  return text;
}

}  // namespace rannc::tools
