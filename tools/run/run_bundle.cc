#include "tools/run/run_bundle.h"

#include <fmt/format.h>

#include "runtime/train/process.h"
#include "runtime/transport/transports.h"
#include "tools/common/driver.h"
#include "tools/common/launcher.h"
#include "tools/measure/memory_gauge.h"
#include "tools/run/process_run.h"
#include "tools/run/run_restart.h"
#include "tools/run/run_start.h"
#include "tools/run/run_worker.h"

namespace rannc::tools {

namespace {

Result<void> launch(const RunFlags& flags, const RunProgram& program) {
  RANNC_ASSIGN(const RunStart start, prepare_run(flags, std::nullopt));  // reports errors once, not per worker
  const RunRestart restart(flags);
  const auto announced = [&](const Restart& next) {
    const std::string checkpoint = restart.checkpoint();
    announce_restart(next, flags.max_restarts, checkpoint);
    return !checkpoint.empty();
  };
  const Result<int> code = launch_workers(own_program(), program.arguments,
                                          {.workers = start.devices,
                                           .threads = flags.threads,
                                           .timeout = start.timeout,
                                           .ends_in_order = !start.evaluates,
                                           .shows_life = true,
                                           .restarts = flags.max_restarts,
                                           .restart = announced,
                                           .main = program.main});
  if (!code.ok())
    return start.evaluates ? code.diagnostic() : with_resume_command(code.diagnostic(), flags, restart, {});
  if (*code != 0) throw Exit{*code};
  return {};
}

// Worker 0 of another launcher reports how to continue, as our launcher does.
Result<void> run_worker(const RunFlags& flags, const runtime::TransportKind& transport,
                        const std::optional<WorkerEnvironment>& worker, const RunCaller& caller) {
  if (worker->rank != 0 || worker->report_pipe >= 0) return run_process(flags, transport, worker, caller);
  const RunRestart restart(flags);
  Result<void> done = run_process(flags, transport, worker, caller);
  if (done.ok() || flags.evaluate) return done;
  return with_resume_command(done.diagnostic(), flags, restart, worker);
}

// Runs nothing.
Result<void> export_alone(const RunFlags& flags) {
  if (!flags.weights.from.empty())
    return error("--weights: give --data, --tokens or --text; without them nothing is run");
  for (const auto& [given, name] : {std::pair(flags.profile, "profile"),
                                    {flags.max_restarts > 0, "max-restarts"},
                                    {flags.find_nonfinite, "find-nonfinite"}}) {
    if (given) return error(fmt::format("--{}: give --data, --tokens or --text; without them nothing is run", name));
  }
  if (!flags.source.validate.empty() || !flags.log.empty())
    return error("--validate and --log: give --data, --tokens or --text; without them nothing is run");
  RANNC_ASSIGN(const RunStart start, prepare_run(flags, std::nullopt));
  warn_of_damaged(start);
  return give_weights(*start.bundle, start.checkpoints.latest, flags.weights);
}

}  // namespace

Result<void> run_bundle(const RunFlags& command_line, const RunProgram& program) {
  RunFlags flags = command_line;
  flags.command = {program.name};
  flags.command.insert(flags.command.end(), program.arguments.begin(), program.arguments.end());
  const bool exports_alone = flags.source.sources() == 0 && !flags.weights.to.empty();
  if (!exports_alone && flags.source.sources() != 1) return error("give one of --data, --tokens and --text");
  RANNC_ASSIGN(auto worker, read_worker_environment(flags.worker));
  if (worker) {
    RANNC_ASSIGN(worker->secret, take_secret());
  }
  if (exports_alone) return worker && worker->rank != 0 ? Result<void>() : export_alone(flags);
  if (worker && worker->resumes) flags.resume = true, flags.replace = false;
  KeptFlags kept;
  if (flags.resume && !flags.evaluate) {
    RANNC_ASSIGN(kept, use_kept_flags(flags.output_folder(), flags));
  }
  const runtime::TransportKind& transport = flags.transport.empty() ? runtime::default_transport(worker.has_value())
                                                                    : *runtime::find_transport(flags.transport);
  const bool processes = transport.between_processes();
  if (flags.max_restarts > 0) RANNC_TRY(check_restarts(transport, worker));
  if (processes && !worker) {
    if (program.workers == RunProgram::Workers::kStarted) return launch(flags, program);
    return error(fmt::format("--transport {}: {}", transport.name, kHowToStart));
  }
  runtime::keep_freed_memory();
  runtime::set_threads(static_cast<int>(flags.threads));
  MemoryGauge::install();
  const RunCaller caller{shell_words(flags.command), program.observer, std::move(kept)};
  if (!processes) return run_process(flags, transport, std::nullopt, caller);
  run_as_worker(*worker, [&] { return run_worker(flags, transport, worker, caller); });
  return {};
}

}  // namespace rannc::tools
