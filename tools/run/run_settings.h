/// What a run trains with: from the bundle, a checkpoint and the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/train/checkpoint.h"
#include "tools/common/driver.h"

namespace rannc::tools {

/// What the user said; the rest comes from elsewhere.
struct SettingFlags {
  std::optional<std::string> optimizer;
  std::optional<double> learning_rate, momentum, weight_decay, clip_norm;
  std::optional<uint64_t> warmup_steps, decay_steps, seed;
};
void add_setting_flags(CLI::App& app, SettingFlags& flags);

struct SettingsFound {
  runtime::TrainingSettings settings;
  std::vector<std::string> changed;  ///< by flags from those of the checkpoint, for people: `learning rate 0.1 …`
};

/// Flags win over the checkpoint (null: a new run), which wins over the plan's optimizer, which wins over ours.
Result<SettingsFound> find_settings(const SettingFlags& flags, const ir::PlanOptimizer& planned,
                                    const runtime::TrainingSettings* checkpoint);

/// `adam, learning rate 0.001, gradients clipped at 1`: for people, without what is off.
std::string describe(const runtime::TrainingSettings& settings);

}  // namespace rannc::tools
