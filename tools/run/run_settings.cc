#include "tools/run/run_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tuple>

#include "ir/plan/parameter_updates.h"

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
  ir::UpdateRule& rule = settings.optimizer;
  rule = planned.name.empty() ? default_rule(ir::OptimizerKind::kAdam, kLearningRate) : planned.rule();
  rule.learning_rate = kLearningRate;
  settings.optimizer.grouping = planned.grouping;
  return settings;
}

/// Returns an error for a flag whose setting the optimizer lacks.
Result<void> check_flags(const SettingFlags& flags, ir::OptimizerKind kind) {
  const std::tuple<const char*, const char*, bool> given[] = {
      {"--momentum", "momentum", flags.momentum.value_or(0) != 0},
      {"--nesterov", "nesterov", flags.nesterov},
      {"--betas", "beta1", !flags.betas.empty()},
      {"--epsilon", "epsilon", flags.epsilon.has_value()},
      {"--amsgrad", "amsgrad", flags.amsgrad},
      {"--muon-rate", "match_rms_adamw", flags.muon_rate.has_value()},
  };
  for (const auto& [flag, setting, is_given] : given) {
    if (!is_given || ir::has_setting(kind, setting)) continue;
    return error(fmt::format("{} applies to {}, not to {}", flag, ir::optimizers_with(setting), str(kind)));
  }
  return {};
}

Result<void> take_optimizer(const SettingFlags& flags, runtime::OptimizerOptions& optimizer, Override& take) {
  std::string name(str(optimizer.kind));
  take("optimizer", flags.optimizer, name);
  RANNC_ASSIGN(const ir::OptimizerKind kind, runtime::parse_optimizer(name));
  ir::UpdateRule& rule = optimizer;
  rule = with_kind(rule, kind);
  RANNC_TRY(check_flags(flags, kind));
  take("learning rate", flags.learning_rate, rule.learning_rate);
  if (ir::has_setting(kind, "momentum")) take("momentum", flags.momentum, rule.momentum);
  if (flags.nesterov) take("nesterov", std::optional(true), rule.nesterov);
  if (flags.momentum == 0.0 && !flags.nesterov) rule.nesterov = false;
  if (rule.nesterov && rule.momentum == 0) return error("--nesterov needs --momentum above 0");
  if (!flags.betas.empty()) {
    if (flags.betas.size() != 2) return error(fmt::format("--betas: expected 2 numbers, got {}", flags.betas.size()));
    take("beta1", std::optional(flags.betas[0]), rule.beta1);
    take("beta2", std::optional(flags.betas[1]), rule.beta2);
  }
  take("epsilon", flags.epsilon, rule.epsilon);
  if (flags.amsgrad) take("amsgrad", std::optional(true), rule.amsgrad);
  if (flags.muon_rate) take("muon rate of adamw", std::optional(*flags.muon_rate == "adamw"), rule.match_rms_adamw);
  take("weight decay", flags.weight_decay, rule.weight_decay);
  return {};
}

std::string listed(const std::vector<ir::ParameterGroup>& groups) {
  std::string text;
  for (const ir::ParameterGroup& group : groups) text += fmt::format("{}'{}'", text.empty() ? "" : " ", str(group));
  return text.empty() ? "none" : text;
}

/// Groups of the command line replace all others.
Result<void> take_groups(const SettingFlags& flags, ir::Grouping& grouping, Override& take) {
  if (!flags.groups.empty()) {
    std::vector<ir::ParameterGroup> groups;
    const bool none = flags.groups.size() == 1 && flags.groups[0] == "none";
    for (const std::string& text : none ? std::vector<std::string>() : flags.groups) {
      auto group = ir::parse_group(text);
      if (!group.ok()) return error("--group " + group.diagnostic().message);
      groups.push_back(*std::move(group));
    }
    std::string before = listed(grouping.groups);
    take("groups", std::optional(listed(groups)), before);
    grouping.groups = std::move(groups);
  }
  if (flags.no_decay) take("no decay of vectors", std::optional(true), grouping.no_decay);
  if (flags.no_decay_embeddings) take("no decay of embeddings", std::optional(true), grouping.no_decay_embeddings);
  take("weight of averages", flags.average, grouping.average);
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
  RANNC_TRY(take_groups(flags, optimizer.grouping, take));
  RANNC_TRY(take_rates(flags, optimizer, take));
  take("clip norm", flags.clip_norm, found.settings.clip_norm);
  take("seed", flags.seed, found.settings.seed);
  take("kept checkpoints", flags.kept_checkpoints, found.settings.kept_checkpoints);
  found.changed = std::move(take.changed);
  return found;
}

std::string describe(const runtime::TrainingSettings& settings) {
  const runtime::OptimizerOptions& optimizer = settings.optimizer;
  const ir::Grouping& grouping = optimizer.grouping;
  std::string text = ir::describe(optimizer);
  if (grouping.no_decay) text += ", no decay of biases and norms";
  if (grouping.no_decay_embeddings) text += ", no decay of embeddings";
  if (grouping.average != 0) text += fmt::format(", averages of weight {}", grouping.average);
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
