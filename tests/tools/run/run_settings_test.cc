// What a run trains with: flags, then the checkpoint, then the plan's optimizer.
#include "tools/run/run_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tools/common/scratch.h"
#include "tools/run/kept_flags.h"
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
  settings.optimizer = {{.kind = OptimizerKind::kAdamW,
                         .learning_rate = 0.1 + 0.2,
                         .weight_decay = 1e-7,
                         .beta1 = 0.8,
                         .beta2 = 0.99,
                         .epsilon = 1e-9,
                         .amsgrad = true},
                        {.groups = {ir::parse_group("*.bias: rate=0.1x, optimizer=lion").value()},
                         .no_decay = true,
                         .no_decay_embeddings = true,
                         .average = 0.75},
                        7,
                        runtime::Decay::kWsd,
                        800,
                        900,
                        0.25};
  settings.clip_norm = 1.0 / 3;
  settings.seed = 1ULL << 63;
  settings.kept_checkpoints = 3;
  return settings;
}

TEST(RunSettings, APlanSaysTheOptimizer) {
  const SettingsFound run = found({}, {"sgd", 0.9, false, {}});
  EXPECT_EQ(run.settings.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(run.settings.optimizer.momentum, 0.9);
  EXPECT_EQ(found({}, {}).settings.optimizer.kind, OptimizerKind::kAdam);
}

TEST(RunSettings, AFlagWinsOverThePlan) {
  const SettingsFound run = found({.optimizer = "adam"}, {"sgd", 0.9, false, {}});
  EXPECT_EQ(run.settings.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_EQ(run.settings.optimizer.momentum, 0);
  EXPECT_THAT(run.changed, IsEmpty()) << "there is no checkpoint that it changes";
}

TEST(RunSettings, ACheckpointWinsOverThePlan) {
  const TrainingSettings saved = all_set();
  const SettingsFound run = found({}, {"sgd", 0.9, false, {}}, &saved);
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
  const SettingsFound run = found(flags, {"sgd", 0.9, false, {}}, &saved);
  EXPECT_EQ(run.settings.optimizer.learning_rate, 0.5);
  EXPECT_EQ(run.settings.optimizer.warmup_steps, 7U);
  EXPECT_EQ(run.settings.seed, 3U);
  EXPECT_EQ(run.settings.kept_checkpoints, 0U);
  EXPECT_THAT(run.changed, ElementsAre("learning rate 0.5 instead of 0.30000000000000004",
                                       HasSubstr("seed 3 instead of "), "kept checkpoints 0 instead of 3"));
}

TEST(RunSettings, MomentumIsOfSgd) {
  const auto refused = find_settings({.momentum = 0.9}, {"adam", 0, false, {}}, nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("--momentum applies to sgd and muon, not to adam"));
}

std::string refusal(const SettingFlags& flags, const char* optimizer = "adam") {
  const auto refused = find_settings(flags, {optimizer, 0, false, {}}, nullptr);
  return refused.ok() ? "" : refused.diagnostic().str();
}

TEST(RunSettings, OptionsOfOneOptimizerAreRefusedForAnother) {
  EXPECT_THAT(refusal({.nesterov = true}), HasSubstr("--nesterov applies to sgd and muon, not to adam"));
  EXPECT_THAT(refusal({.nesterov = true}, "sgd"), HasSubstr("--nesterov needs --momentum above 0"));
  EXPECT_THAT(refusal({.betas = {0.8, 0.9}}, "sgd"),
              HasSubstr("--betas applies to adam, adamw, lion and muon, not to sgd"));
  EXPECT_THAT(refusal({.epsilon = 1e-6}, "sgd"), HasSubstr("--epsilon applies to adam, adamw and muon, not to sgd"));
  EXPECT_THAT(refusal({.betas = {0.8}}), HasSubstr("--betas: expected 2 numbers, got 1"));
  const auto optimizer = found({.epsilon = 1e-6, .betas = {0.8, 0.9}}, {"adamw", 0, false, {}}).settings.optimizer;
  EXPECT_EQ(optimizer.beta1, 0.8);
  EXPECT_EQ(optimizer.beta2, 0.9);
  EXPECT_EQ(optimizer.epsilon, 1e-6);
  EXPECT_THAT(refusal({.amsgrad = true}, "lion"), HasSubstr("--amsgrad applies to adam, adamw and muon, not to lion"));
  EXPECT_THAT(refusal({.muon_rate = "original"}), HasSubstr("--muon-rate applies to muon, not to adam"));
  EXPECT_THAT(refusal({.groups = {"*.bias: rate=fast"}}),
              HasSubstr("--group '*.bias: rate=fast': rate=fast: expected a positive number, or a factor"));
  EXPECT_TRUE(found({.momentum = 0.9, .nesterov = true}, {"sgd", 0, false, {}}).settings.optimizer.nesterov);
}

TEST(RunSettings, FlagsOfADecayThatContradictEachOtherAreRefused) {
  EXPECT_THAT(refusal({.decay = "linear"}), HasSubstr("--decay linear needs --decay-steps"));
  EXPECT_THAT(refusal({.final_rate = 0.5}), HasSubstr("--final-rate needs --decay-steps"));
  EXPECT_THAT(refusal({.decay_from = 5}), HasSubstr("--decay-from needs --decay-steps"));
  EXPECT_THAT(refusal({.decay = "inverse-sqrt", .decay_steps = 9}),
              HasSubstr("--decay-steps applies to cosine, linear and wsd, not to inverse-sqrt"));
  EXPECT_THAT(refusal({.decay_from = 9, .decay_steps = 9}),
              HasSubstr("--decay-from 9: expected a step before that of --decay-steps, 9"));
  const auto optimizer = found({.decay = "wsd", .final_rate = 0.25, .decay_steps = 15}, {}).settings.optimizer;
  EXPECT_EQ(optimizer.decay, runtime::Decay::kWsd);
  EXPECT_EQ(optimizer.decay_begin(), 12U);
  EXPECT_EQ(optimizer.learning_rate_at(15), 0.25 * optimizer.learning_rate);
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

// A new flag must choose what a resumed run does about it.
TEST(KeptFlags, EveryFlagHasAScope) {
  CLI::App app;
  RunFlags flags;
  add_run_flags(app, flags);
  std::set<FlagScope> seen;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (name == "help" || name == "flag-tables") continue;
      const auto scope = scope_of("--" + name);
      EXPECT_TRUE(scope) << "--" << name << " has no row";
      if (scope) seen.insert(*scope);
    }
  }
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_FALSE(scope_of("--unknown"));
  for (const char* flag : {"--optimizer", "--learning-rate", "--seed", "--keep"})
    EXPECT_EQ(scope_of(flag), FlagScope::kCheckpoint) << flag;
}

RunFlags parsed(std::vector<std::string> words) {
  CLI::App app;
  RunFlags flags;
  add_run_flags(app, flags);
  std::reverse(words.begin(), words.end());
  app.parse(words);
  return flags;
}

TEST(RunFlags, BitsCannotBeEqualAndConvolutionsTimed) {
  EXPECT_TRUE(parsed({"--data", "d", "--time-convolutions"}).time_convolutions);
  EXPECT_THROW(parsed({"--data", "d", "--time-convolutions", "--deterministic"}), CLI::ExcludesError);
}

TEST(KeptFlags, AResumedRunHasThoseOfItsRun) {
  const Scratch scratch;
  const std::string folder = scratch.path();
  ASSERT_TRUE(keep_flags(folder, parsed({"--data", "d", "--epochs", "3", "--validate", "/tmp/v", "--validate-every",
                                         "5", "--metric", "a", "--metric", "b", "--checkpoint-every", "7", "--seed",
                                         "4", "--log", "l", "--deterministic"}))
                  .ok());
  RunFlags plain = parsed({"--data", "d", "--resume"});
  const KeptFlags same = use_kept_flags(folder, plain).value();
  EXPECT_EQ(plain.epochs, 3U);
  EXPECT_EQ(plain.source.validate, "/tmp/v");
  EXPECT_EQ(plain.source.validate_every, 5U);
  EXPECT_THAT(plain.source.metrics, ElementsAre("a", "b"));
  EXPECT_EQ(plain.checkpoint_every, 7U);
  EXPECT_FALSE(plain.settings.seed) << "checkpoints have it";
  EXPECT_TRUE(plain.log.empty() && !plain.deterministic);
  EXPECT_THAT(same.used, ElementsAre("--checkpoint-every 7", "--epochs 3", "--metric a --metric b", "--validate /tmp/v",
                                     "--validate-every 5"));
  EXPECT_THAT(same.lacking, ElementsAre("--deterministic", "--log l"));
  EXPECT_THAT(same.changed, IsEmpty());

  RunFlags other = parsed(
      {"--data", "d", "--resume", "--steps", "9", "--validate-every", "6", "--checkpoint-every", "7", "--log", "l"});
  const KeptFlags changed = use_kept_flags(folder, other).value();
  EXPECT_EQ(other.steps, 9U);
  EXPECT_FALSE(other.epochs);
  EXPECT_EQ(other.source.validate_every, 6U);
  EXPECT_EQ(other.source.validate, "/tmp/v");
  EXPECT_THAT(changed.changed, ElementsAre("--steps 9 instead of --epochs 3", "--validate-every 6 instead of 5"));
  EXPECT_THAT(changed.lacking, ElementsAre("--deterministic"));

  // The next resumption continues with what was changed.
  ASSERT_TRUE(keep_flags(folder, other).ok());
  RunFlags third = parsed({"--data", "d", "--resume"});
  EXPECT_THAT(use_kept_flags(folder, third).value().changed, IsEmpty());
  EXPECT_EQ(third.steps, 9U);
  EXPECT_EQ(third.source.validate_every, 6U);
}

TEST(KeptFlags, FoldersWithoutThemAreReported) {
  const Scratch scratch;
  RunFlags flags = parsed({"--data", "d", "--resume", "--steps", "9"});
  EXPECT_TRUE(use_kept_flags(scratch.path(), flags).value().unknown);
  EXPECT_EQ(flags.steps, 9U);
  for (const char* bad :
       {"", "[]", R"({"flags": 3})", R"({"flags": {"--steps": ["many"]}})", R"({"flags": {"--metric": ["a"]}})"}) {
    std::ofstream(scratch.path() + "/flags.json") << bad;
    const auto found = use_kept_flags(scratch.path(), flags = parsed({"--data", "d", "--resume"}));
    ASSERT_FALSE(found.ok()) << bad;
    EXPECT_THAT(found.diagnostic().str(), HasSubstr("flags.json")) << bad;
  }
  EXPECT_THROW(parsed({"--data", "d", "--validate-every", "3"}), CLI::RequiresError);
  EXPECT_THROW(parsed({"--data", "d", "--metric", "a"}), CLI::RequiresError);
}

}  // namespace
}  // namespace rannc::tools
