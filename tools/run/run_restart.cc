#include "tools/run/run_restart.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "runtime/train/checkpoint.h"
#include "tools/common/driver.h"
#include "tools/run/run_folder.h"

namespace rannc::tools {

namespace fs = std::filesystem;

namespace {

std::map<fs::path, fs::file_time_type> manifests_in(const fs::path& checkpoints) {
  std::map<fs::path, fs::file_time_type> found;
  std::error_code failed;
  for (fs::directory_iterator it(checkpoints, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code absent;
    const fs::path manifest = it->path() / "manifest.json";
    const auto time = fs::last_write_time(manifest, absent);
    if (!absent) found.emplace(manifest, time);
  }
  return found;
}

}  // namespace

Result<void> check_restarts(const runtime::TransportKind& transport, const std::optional<WorkerEnvironment>& worker) {
  if (!transport.between_processes()) {
    return error(
        fmt::format("--max-restarts: transport {} runs all devices in one process, which nobody starts again; "
                    "use --transport auto",
                    transport.name));
  }
  if (!worker || worker->report_pipe >= 0) return {};
  return error(fmt::format("--max-restarts applies to workers that rannc-run starts, but these were started by {}",
                           worker->by_flags ? "hand" : worker->launcher));
}

RunRestart::RunRestart(const RunFlags& flags) : checkpoints_(checkpoints_of(flags.output_folder())) {
  if (flags.replace) replaced_ = manifests_in(checkpoints_);
  before_ = checkpoint();
}

// The run has no checkpoint as long as one of the replaced run is there: all workers remove those before the first
// step.
std::string RunRestart::checkpoint() const {
  const auto present = manifests_in(checkpoints_);
  for (const auto& [manifest, time] : replaced_) {
    const auto found = present.find(manifest);
    if (found != present.end() && found->second == time) return {};
  }
  return runtime::latest_checkpoint(checkpoints_.string());
}

std::string resume_command(const RunFlags& flags, const std::optional<WorkerEnvironment>& worker) {
  if (worker && worker->report_pipe < 0) return "the same command and --resume";
  if (flags.command.empty()) return {};
  std::vector<std::string> words = flags.command;
  std::erase(words, "--replace");
  if (std::find(words.begin(), words.end(), "--resume") == words.end()) words.push_back("--resume");
  return shell_words(words);
}

Diagnostic with_resume_command(Diagnostic failure, const RunFlags& flags, const RunRestart& restart,
                               const std::optional<WorkerEnvironment>& worker) {
  const std::string checkpoint = restart.checkpoint(), command = resume_command(flags, worker);
  std::error_code ignored;
  const bool trained = fs::exists(fs::path(flags.output_folder()) / kLossesFile, ignored);
  if (command.empty() || (checkpoint.empty() && !trained)) return failure;
  if (checkpoint.empty()) {
    return std::move(failure).note(
        "the run has no checkpoint and has to begin again; with --checkpoint-every N, --resume continues it");
  }
  if (restart.had(checkpoint)) return failure;
  return std::move(failure).note(fmt::format("continue from {} with: {}", checkpoint, command));
}

void announce_restart(const Restart& restart, uint32_t of, const std::string& checkpoint) {
  const std::string from = checkpoint.empty() ? "the beginning, because there is no checkpoint yet" : checkpoint;
  // A terminal shows an unfinished line of progress.
  fmt::print(stderr, "{}note: {}; restart {} of {} from {}\n", isatty(STDOUT_FILENO) != 0 ? "\n" : "", restart.reason,
             restart.number, of, from);
}

}  // namespace rannc::tools
