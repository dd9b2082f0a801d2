/// Determines from where a run continues that has ended early.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "ir/base/diagnostic.h"
#include "runtime/transport/transports.h"
#include "tools/common/launcher.h"
#include "tools/common/worker_environment.h"
#include "tools/run/run_flags.h"

namespace rannc::tools {

/// Returns an error if `--max-restarts` has no effect: this process does not start the workers.
Result<void> check_restarts(const runtime::TransportKind& transport, const std::optional<WorkerEnvironment>& worker);

/// The checkpoints of a run in its folder. Those of a run that `--replace` removes do not count, even if its workers
/// are lost before they have removed them.
class RunRestart {
 public:
  /// To be created before the workers start.
  explicit RunRestart(const RunFlags& flags);
  /// Returns the latest checkpoint of the run, or an empty string if the run has to begin again. No worker may run.
  std::string checkpoint() const;
  /// Returns whether that checkpoint was there before.
  bool had(const std::string& checkpoint) const { return checkpoint == before_; }

 private:
  std::string before_;  ///< the latest checkpoint when the workers started; empty: none
  std::filesystem::path checkpoints_;
  std::map<std::filesystem::path, std::filesystem::file_time_type> replaced_;  ///< manifests of the other run
};

/// Returns the command that continues a run: its own with `--resume`. Workers of other launchers do not know theirs, so
/// that it is described. Empty if no command started the run.
std::string resume_command(const RunFlags& flags, const std::optional<WorkerEnvironment>& worker);

/// Adds to the failure of a training run how to continue it: from the checkpoint that it has written, if any, else that
/// it has to begin again.
Diagnostic with_resume_command(Diagnostic failure, const RunFlags& flags, const RunRestart& restart,
                               const std::optional<WorkerEnvironment>& worker);

/// Prints to standard error why and from where the workers start again.
void announce_restart(const Restart& restart, uint32_t of, const std::string& checkpoint);

}  // namespace rannc::tools
