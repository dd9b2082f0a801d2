/// What a worker finds in the environment that a launcher gave it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// Set by `launch_workers` for its workers, beside what torchrun sets.
constexpr const char* kListeningSocketVariable = "RANNC_LISTENING_SOCKET";
constexpr const char* kReportPipeVariable = "RANNC_REPORT_PIPE";

struct WorkerEnvironment {
  uint32_t rank = 0, workers = 1;
  std::string launcher;  ///< for people: `torchrun`, `mpirun`, `srun`, `rannc-run`
  std::string master_address;
  uint16_t master_port = 0;
  bool torch_store = false;  ///< torchrun serves LibTorch's store on `master_port`
  std::string torch_round;   ///< which of its restarts this is
  /// Of workers that `launch_workers` started, else -1. Worker 0: listens on `master_port`.
  int listening_socket = -1;
  int report_pipe = -1;  ///< takes why this worker failed, for the launcher to print
};

/// Whether this process is one of several that a launcher started, and which: by WORLD_SIZE (torchrun),
/// OMPI_COMM_WORLD_SIZE (mpirun) or SLURM_STEP_NUM_TASKS (srun) above 1. Of several the first counts: the others belong
/// to what started it. The shell of a Slurm allocation is no worker. On one machine mpirun and srun need no
/// MASTER_ADDR: the port then follows from the job's name. Missing or malformed variables are errors that name them.
Result<std::optional<WorkerEnvironment>> read_worker_environment();

}  // namespace rannc::tools
