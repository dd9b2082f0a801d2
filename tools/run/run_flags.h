/// Flags of the programs that run a bundle.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/loss_scale.h"
#include "runtime/train/trainer.h"
#include "tools/common/worker_environment.h"
#include "tools/run/run_data.h"
#include "tools/run/run_folder.h"
#include "tools/run/run_settings.h"
#include "tools/run/run_weights.h"

namespace rannc::tools {

/// Flags of a command line, with their values: `--steps`, `100`.
using ExplicitFlags = std::map<std::string, std::vector<std::string>>;

/// What a resumed run does about a flag of the run that it continues; `OptionRow::inputs` of the flags of a run.
enum FlagScope : uint32_t {
  kRun = 1 << 0,         ///< uses it, unless the command line has another; kept in the run's folder
  kCheckpoint = 1 << 1,  ///< the same; kept in each checkpoint
  kSamples = 1 << 2,     ///< requires it again; other samples are reported
  kReported = 1 << 3,    ///< reports that it lacks it
  kInvocation = 1 << 4,  ///< nothing: the flag concerns one invocation only
};

struct RunFlags {
  std::string bundle;
  std::string output;
  DataFlags source;
  uint64_t steps = 100;
  std::optional<uint64_t> epochs;  ///< instead of steps
  uint64_t accumulate = 1;         ///< mini-batches per step
  std::string accumulate_as = "batch";
  runtime::Accumulated accumulated() const {
    return accumulate_as == "mean" ? runtime::Accumulated::kMean : runtime::Accumulated::kOneBatch;
  }
  WorkerFlags worker;
  std::string transport;  ///< empty: determined by the environment
  std::string engine;     ///< empty: the default
  std::string device;     ///< empty: the type of the plan's devices
  bool cuda_graphs = true;
  std::string matmul_precision = "highest";
  bool deterministic = false, time_convolutions = false;
  uint32_t threads = 1;
  SettingFlags settings;
  double loss_scale = runtime::LossScale::kInitial;
  uint64_t checkpoint_every = 0;
  bool resume = false, replace = false;
  std::string resume_shared;  ///< folder of a run of another model; empty: none
  uint32_t max_restarts = 0;
  bool profile = false;
  bool explain_step = false;
  bool find_nonfinite = false;
  bool evaluate = false;                    ///< implied for a bundle without a loss
  std::optional<uint32_t> timeout_seconds;  ///< none: `default_timeout`
  bool late_sums = false;
  bool late_recompute = false;
  std::string loss_log;
  std::string log;          ///< of measurements by step
  std::string tensorboard;  ///< folder for the same as events
  WeightFlags weights;
  std::vector<std::string> libraries;
  ExplicitFlags explicit_flags;
  std::vector<std::string> command;  ///< words that started the run, for hints; empty: no command did

  /// The folder for checkpoints, trace and report.
  std::string output_folder() const;
  RunFolderUse folder_use() const;

  /// Like `compiler::ReadOptions::rows`.
  template <class Table>
  static void rows(Table& table);
};

/// Returns the scope of a flag of `add_run_flags`, such as `--steps`; nullopt for other names.
std::optional<FlagScope> scope_of(std::string_view flag);

/// Adds all flags, but not the argument that names the bundle.
void add_run_flags(CLI::App& app, RunFlags& flags);

}  // namespace rannc::tools
