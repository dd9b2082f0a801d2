/// Determines the training settings from the bundle, a checkpoint and the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/train/checkpoint.h"
#include "tools/common/driver.h"

namespace rannc::tools {

/// Settings from the command line; the others come from the checkpoint or the bundle.
struct SettingFlags {
  std::optional<std::string> optimizer, decay, muon_rate;
  std::optional<double> learning_rate, momentum, weight_decay, epsilon, final_rate, clip_norm, average;
  std::vector<double> betas;
  bool nesterov = false, amsgrad = false, no_decay = false, no_decay_embeddings = false;
  std::vector<std::string> groups;
  std::optional<uint64_t> warmup_steps, decay_from, decay_steps, seed, kept_checkpoints;
};

struct SettingsFound {
  runtime::TrainingSettings settings;
  std::vector<std::string> changed;  ///< changes by flags to the checkpoint's settings: `learning rate 0.1 …`
};

/// Precedence: flags, checkpoint (null for a new run), the plan's optimizer, the defaults.
Result<SettingsFound> find_settings(const SettingFlags& flags, const ir::PlanOptimizer& planned,
                                    const runtime::TrainingSettings* checkpoint);

/// Formats settings for people, without disabled ones: `adam, learning rate 0.001, gradients clipped at 1`.
std::string describe(const runtime::TrainingSettings& settings);

}  // namespace rannc::tools
