#include "tools/run/run_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "runtime/bundle/libraries.h"
#include "runtime/train/checkpoint.h"
#include "tools/measure/step_profile.h"
#include "tools/run/run_folder.h"
#include "tools/run/run_restart.h"

namespace rannc::tools {

namespace fs = std::filesystem;

namespace {

runtime::HostedStages needed_files(const RunFlags& flags, const std::optional<WorkerEnvironment>& worker) {
  if (!worker || (worker->rank == 0 && !flags.weights.to.empty())) return {};
  return {.device = DeviceId(worker->rank)};
}

/// Whether this process takes the lock for all workers.
bool leads(const std::optional<WorkerEnvironment>& worker) {
  return !worker || (worker->rank == 0 && worker->report_pipe < 0);
}

/// Adds to the error about a folder that contains a run how to continue that run.
Diagnostic with_way_on(Diagnostic failure, const RunFlags& flags, const std::optional<WorkerEnvironment>& worker) {
  const std::string latest = runtime::latest_checkpoint(checkpoints_of(flags.output_folder()).string());
  const std::string command = resume_command(flags, worker);
  if (flags.resume || latest.empty() || command.empty()) return failure;
  return std::move(failure).note(fmt::format("continue from {} with: {}", latest, command));
}

}  // namespace

std::chrono::seconds default_timeout(const ir::Plan& plan) {
  constexpr std::chrono::seconds kMost = std::chrono::hours(24);
  constexpr int64_t kNsPerTenth = 100'000'000;
  return std::clamp(std::chrono::seconds(plan.step_ns / kNsPerTenth), kLeastTimeout, kMost);
}

void warn_of_damaged(const RunStart& start) {
  for (const Diagnostic& fault : start.checkpoints.damaged)
    fmt::print(stderr, "warning: {}: {}; continuing from {}\n", fault.where.str(), fault.message,
               start.checkpoints.latest);
}

Result<RunStart> prepare_run(const RunFlags& flags, const std::optional<WorkerEnvironment>& worker) {
  RunStart start;
  RANNC_ASSIGN(runtime::Bundle opened, runtime::open_bundle(flags.bundle, needed_files(flags, worker)));
  start.bundle = std::make_shared<const runtime::Bundle>(std::move(opened));
  const runtime::Bundle& bundle = *start.bundle;
  RANNC_TRY(runtime::load_libraries(bundle, flags.libraries));
  start.devices = static_cast<uint32_t>(bundle.plan.devices.size());
  start.timeout = flags.timeout_seconds ? std::chrono::seconds(*flags.timeout_seconds) : default_timeout(bundle.plan);
  if (worker && worker->workers != start.devices) {
    const std::string found = worker->by_flags
                                  ? fmt::format("--world is {}", worker->workers)
                                  : fmt::format("{} started {} workers", worker->launcher, worker->workers);
    return error({flags.bundle, 0, 0, {}}, fmt::format("the plan is for {} devices, {}", start.devices, found));
  }
  start.evaluates = flags.evaluate || !bundle.plan.training;
  if (start.evaluates && (flags.source.by_length || flags.source.pad_multiple > 1))
    return error("--bucket-by-length and --pad-multiple: an evaluation writes outputs of one size");
  if (!flags.resume_shared.empty() && (start.evaluates || flags.source.sources() == 0))
    return error("--resume-shared: nothing is trained, but it begins with tensors of another run");
  if (flags.profile && start.evaluates) return error("--profile: nothing is trained, but it profiles training steps");
  if (flags.explain_step && start.evaluates)
    return error("--explain-step: nothing is trained, but it explains training steps");
  if (flags.find_nonfinite && start.evaluates)
    return error("--find-nonfinite: nothing is trained, but it examines training steps");
  if (flags.find_nonfinite && !flags.engine.empty() && flags.engine != "explicit") {
    return error(
        fmt::format("--find-nonfinite: engine {} does not show the results of tasks; leave out --engine, or "
                    "use --engine explicit",
                    flags.engine));
  }
  if (flags.max_restarts > 0 && start.evaluates)
    return error("--max-restarts: nothing is trained, but it continues training from checkpoints");
  if (!flags.source.validate.empty() && start.evaluates)
    return error("--validate: nothing is trained; use --data alone");
  for (const auto& [flag, file] : {std::pair("--log", &flags.log), {"--tensorboard", &flags.tensorboard}}) {
    if (!file->empty() && start.evaluates)
      return error(fmt::format("{}: nothing is trained, and it records training steps", flag));
  }
  WeightFlags weights = flags.weights;
  if (flags.resume) weights.from.clear();
  RANNC_TRY(check_weight_flags(weights, bundle));
  if (start.evaluates && !weights.from.empty() && !weights.to.empty())
    return error("--export-weights: nothing is trained, and the weights of --weights are in a file already");
  const fs::path folder = flags.output_folder();
  const bool runs = flags.source.sources() > 0;
  if (runs && leads(worker)) {
    const FolderPart part = start.evaluates ? FolderPart::kEvaluation : FolderPart::kRun;
    RANNC_ASSIGN(start.lock, FolderLock::take(folder, part));
  }
  RunCheckpoints found;
  if (flags.resume || (runs && !start.evaluates)) {
    auto checked = check_run_folder(folder, flags.folder_use());
    if (!checked.ok()) return with_way_on(checked.diagnostic(), flags, worker);
    found = *std::move(checked);
  }
  std::optional<runtime::CheckpointState> state;
  if (flags.resume) {
    start.checkpoints = std::move(found);
    RANNC_ASSIGN(state, runtime::read_checkpoint_state(start.checkpoints.latest));
    start.step = state->step;
  }
  RANNC_ASSIGN(start.found, find_settings(flags.settings, bundle.plan.optimizer, state ? &state->settings : nullptr));
  if (flags.weights.averaged && start.found.settings.optimizer.grouping.average == 0)
    return error("--averaged: the run keeps no averages of its parameters; --ema does");
  return start;
}

runtime::TrainerOptions trainer_options(const RunFlags& flags, const RunStart& start) {
  const runtime::TrainingSettings& settings = start.found.settings;
  runtime::TrainerOptions options{
      .optimizer = settings.optimizer, .clip_norm = settings.clip_norm, .seed = settings.seed};
  options.loss_scale = flags.loss_scale;
  options.kept_checkpoints = settings.kept_checkpoints;
  options.engine = flags.engine;
  options.records_steps = flags.cuda_graphs;
  options.timeout = start.timeout;
  options.overlaps_sums = !flags.late_sums;
  options.overlaps_recompute = !flags.late_recompute;
  return options;
}

runtime::Rendezvous rendezvous_of(const WorkerEnvironment& worker, const RunStart& start) {
  return {.host = worker.master_address,
          .port = worker.master_port,
          .rank = worker.rank,
          .workers = worker.workers,
          .listening_socket = worker.listening_socket,
          .torch_store = worker.torch_store,
          .torch_round = worker.torch_round,
          .timeout = start.timeout,
          .pairs = ir::message_pairs(start.bundle->plan),
          .sum_pairs = ir::sum_pairs(start.bundle->plan),
          .pass_sum_pairs = ir::pass_sum_pairs(start.bundle->plan),
          .secret = worker.secret,
          .insecure = worker.insecure};
}

}  // namespace rannc::tools
