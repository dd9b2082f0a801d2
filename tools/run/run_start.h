/// Determines how a run starts from its flags, its bundle and its folder.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/bundle/bundle.h"
#include "runtime/train/trainer.h"
#include "runtime/transport/rendezvous.h"
#include "tools/common/worker_environment.h"
#include "tools/run/run_flags.h"
#include "tools/run/run_folder.h"
#include "tools/run/run_settings.h"

namespace rannc::tools {

/// Facts that are determined before training.
struct RunStart {
  RunCheckpoints checkpoints;  ///< of a resumed run; none: the bundle's weights
  uint64_t step = 0;
  SettingsFound found;
  bool evaluates = false;
  uint32_t devices = 0;
  std::chrono::seconds timeout{0};  ///< `--timeout`
  std::shared_ptr<const runtime::Bundle> bundle;
  FolderLock lock;  ///< of the process that leads the run: the launcher, or worker 0 of another launcher
};

constexpr std::chrono::seconds kLeastTimeout{60};

/// Maximum time to wait for another worker or to work without progress: `kLeastTimeout`, or ten predicted steps if that
/// is longer, but at most a day. An action is part of a step, so one that takes longer than predicted is not taken for
/// a hang.
std::chrono::seconds default_timeout(const ir::Plan& plan);

/// Prints which newer checkpoints are passed over, and why.
void warn_of_damaged(const RunStart& start);

/// Checks the command line, the bundle and the folder before any worker waits for another. A worker needs the files of
/// its device's stages; worker 0 needs all if it exports weights.
Result<RunStart> prepare_run(const RunFlags& flags, const std::optional<WorkerEnvironment>& worker);

/// Options of the run's trainer that flags and settings determine.
runtime::TrainerOptions trainer_options(const RunFlags& flags, const RunStart& start);

/// How a worker meets the others of its run.
runtime::Rendezvous rendezvous_of(const WorkerEnvironment& worker, const RunStart& start);

}  // namespace rannc::tools
