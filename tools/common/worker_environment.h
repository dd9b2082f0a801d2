/// Determines a worker's identity from flags or from the environment that its launcher set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::tools {

/// Variables that `launch_workers` sets in addition to those of torchrun.
constexpr const char* kListeningSocketVariable = "RANNC_LISTENING_SOCKET";
constexpr const char* kReportPipeVariable = "RANNC_REPORT_PIPE";
constexpr const char* kResumesVariable = "RANNC_RESUMES";
/// Variable with the secret of a run's workers: set by `launch_workers`, or by hand.
constexpr const char* kSecretVariable = "RANNC_SECRET";

/// How a process becomes a worker, for messages.
inline constexpr const char* kHowToStart =
    "start one process per device: with --rank, --world and --master, or by torchrun, mpirun or srun";

/// Flags that name a worker.
struct WorkerFlags {
  std::optional<uint32_t> rank, world;  ///< both or none
  std::string master;                   ///< HOST:PORT on which worker 0 listens; empty: from the environment
  bool insecure = false;                ///< without a secret, also on addresses that other machines reach
};

struct WorkerEnvironment {
  uint32_t rank = 0, workers = 1;
  uint32_t local_rank = 0;  ///< among the workers of its machine; `rank` if the launcher does not say
  std::string launcher;     ///< `torchrun`, `mpirun`, `mpiexec`, `srun` or `rannc-run`, for messages
  bool by_flags = false;    ///< whether flags name rank and number of workers, without a launcher
  std::string master_address;
  uint16_t master_port = 0;
  bool insecure = false;     ///< `WorkerFlags::insecure`
  std::string secret;        ///< of `take_secret`, which the caller sets
  bool torch_store = false;  ///< whether torchrun serves LibTorch's store on `master_port`
  std::string torch_round;   ///< number of torchrun's restart
  /// Set for workers that `launch_workers` started, else -1. Worker 0's socket listens on `master_port`.
  int listening_socket = -1;
  int report_pipe = -1;  ///< receives the reason of this worker's failure, which the launcher prints
  bool resumes = false;  ///< whether it replaces a lost worker of a run that continues from its latest checkpoint
};

/// Returns the identity of this process if it is one of several: by `flags`, or if a launcher started several, which it
/// detects by WORLD_SIZE (torchrun), OMPI_COMM_WORLD_SIZE (mpirun of Open MPI), PMI_SIZE (mpiexec of MPICH) or
/// SLURM_STEP_NUM_TASKS (srun) above 1. The first of these that is set wins, since the others belong to the program
/// that started the launcher. The shell of a Slurm allocation is not a worker.
///
/// Worker 0 listens at `flags.master`, else at MASTER_ADDR and MASTER_PORT. Without both, workers of one machine under
/// mpirun and srun, and of several machines under srun, meet on worker 0's machine, at a port derived from the job's
/// name. A missing or malformed flag or variable is an error that names it.
Result<std::optional<WorkerEnvironment>> read_worker_environment(const WorkerFlags& flags = {});

/// Returns the secret of this process's run from RANNC_SECRET, or an empty text if there is none. Removes it from the
/// environment, and overwrites it there, so that neither child processes nor listings of processes have it. A short one
/// is an error. Must not run while other threads use the environment.
Result<std::string> take_secret();

}  // namespace rannc::tools
