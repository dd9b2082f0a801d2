/// Determines from where a run continues whose workers were lost.
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

 private:
  std::filesystem::path checkpoints_;
  std::map<std::filesystem::path, std::filesystem::file_time_type> replaced_;  ///< manifests of the other run
};

/// Prints to standard error why and from where the workers start again.
void announce_restart(const Restart& restart, uint32_t of, const std::string& checkpoint);

}  // namespace rannc::tools
