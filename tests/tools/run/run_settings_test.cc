// What a run trains with: flags, then the checkpoint, then the plan's optimizer.
#include "tools/run/run_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tools/common/scratch.h"
#include "tools/run/run_folder.h"

namespace rannc::tools {
namespace {

using runtime::OptimizerKind;
using runtime::TrainingSettings;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SettingsFound found(const SettingFlags& flags, const ir::PlanOptimizer& planned,
                    const TrainingSettings* checkpoint = nullptr) {
  auto result = find_settings(flags, planned, checkpoint);
  EXPECT_TRUE(result.ok()) << result.diagnostic().str();
  return result.ok() ? *std::move(result) : SettingsFound{};
}

TrainingSettings all_set() {
  TrainingSettings settings;
  settings.optimizer = {.kind = OptimizerKind::kAdamW,
                        .learning_rate = 0.1 + 0.2,
                        .weight_decay = 1e-7,
                        .beta1 = 0.8,
                        .beta2 = 0.99,
                        .epsilon = 1e-9,
                        .warmup_steps = 7,
                        .decay_steps = 900,
                        .decay_to = 0.25};
  settings.clip_norm = 1.0 / 3;
  settings.seed = 1ULL << 63;
  settings.kept_checkpoints = 3;
  return settings;
}

TEST(RunSettings, APlanSaysTheOptimizer) {
  const SettingsFound run = found({}, {"sgd", 0.9});
  EXPECT_EQ(run.settings.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(run.settings.optimizer.momentum, 0.9);
  EXPECT_EQ(found({}, {}).settings.optimizer.kind, OptimizerKind::kAdam);
}

TEST(RunSettings, AFlagWinsOverThePlan) {
  const SettingsFound run = found({.optimizer = "adam"}, {"sgd", 0.9});
  EXPECT_EQ(run.settings.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_EQ(run.settings.optimizer.momentum, 0);
  EXPECT_THAT(run.changed, IsEmpty()) << "there is no checkpoint that it changes";
}

TEST(RunSettings, ACheckpointWinsOverThePlan) {
  const TrainingSettings saved = all_set();
  const SettingsFound run = found({}, {"sgd", 0.9}, &saved);
  EXPECT_EQ(run.settings, saved);
  EXPECT_THAT(run.changed, IsEmpty());
}

TEST(RunSettings, FlagsWinOverTheCheckpointAndAreNamed) {
  const TrainingSettings saved = all_set();
  SettingFlags flags;
  flags.learning_rate = 0.5;
  flags.clip_norm = saved.clip_norm;  // the same
  flags.seed = 3;
  flags.kept_checkpoints = 0;
  const SettingsFound run = found(flags, {"sgd", 0.9}, &saved);
  EXPECT_EQ(run.settings.optimizer.learning_rate, 0.5);
  EXPECT_EQ(run.settings.optimizer.warmup_steps, 7U);
  EXPECT_EQ(run.settings.seed, 3U);
  EXPECT_EQ(run.settings.kept_checkpoints, 0U);
  EXPECT_THAT(run.changed, ElementsAre("learning rate 0.5 instead of 0.30000000000000004",
                                       HasSubstr("seed 3 instead of "), "kept checkpoints 0 instead of 3"));
}

TEST(RunSettings, MomentumIsOfSgd) {
  const auto refused = find_settings({.momentum = 0.9}, {"adam", 0}, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("--momentum applies to sgd, not to adam"));
}

TEST(RunSettings, ACheckpointKeepsAllOfThem) {
  const Scratch scratch;
  const std::string folder = scratch.path() + "/step-5";
  ASSERT_TRUE(runtime::write_checkpoint_part(folder, 0, {}).ok());
  const runtime::CheckpointState made{.step = 5,
                                      .updates = 3,
                                      .loss_scale = {.scale = 8, .finite_steps = 2},
                                      .settings = all_set(),
                                      .model_digest = "digest",
                                      .data_state = "data"};
  ASSERT_TRUE(runtime::finish_checkpoint(folder, {0}, made).ok());
  const auto state = runtime::read_checkpoint_state(folder);
  ASSERT_TRUE(state.ok()) << state.diagnostic().str();
  EXPECT_EQ(state->settings, all_set());
  EXPECT_EQ(state->step, 5U);
  EXPECT_EQ(state->updates, 3U);
  EXPECT_EQ(state->loss_scale, made.loss_scale);
}

TEST(RunFolder, ARunIsNotOverwrittenUnasked) {
  namespace fs = std::filesystem;
  const Scratch scratch;
  const fs::path folder = fs::path(scratch.path()) / "run";
  const auto ok = [&](RunFolderUse use) { return check_run_folder(folder, use).ok(); };
  EXPECT_TRUE(ok(RunFolderUse::kNew));
  EXPECT_TRUE(ok(RunFolderUse::kReplace));
  EXPECT_FALSE(ok(RunFolderUse::kResume));
  ASSERT_TRUE(prepare_run_folder(folder, RunFolderUse::kNew).ok());
  EXPECT_TRUE(ok(RunFolderUse::kNew)) << "a run that ended before its first checkpoint is none";
  std::ofstream(folder / "notes.txt") << "the user's own";
  std::ofstream(folder / "report.html") << "a report";
  EXPECT_FALSE(ok(RunFolderUse::kNew));
  const std::string checkpoint = (checkpoints_of(folder) / "step-3").string();
  ASSERT_TRUE(runtime::write_checkpoint_part(checkpoint, 0, {}).ok());
  ASSERT_TRUE(runtime::finish_checkpoint(checkpoint, {0}, {}).ok());
  const auto refused = check_run_folder(folder, RunFolderUse::kNew);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(),
              testing::AllOf(HasSubstr("--resume"), HasSubstr("--replace"), HasSubstr("step-3")));
  EXPECT_TRUE(ok(RunFolderUse::kResume));
  ASSERT_TRUE(prepare_run_folder(folder, RunFolderUse::kReplace).ok());
  EXPECT_TRUE(ok(RunFolderUse::kNew));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
}

}  // namespace
}  // namespace rannc::tools
