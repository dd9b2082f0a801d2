/// Starts the worker processes of one machine and watches over them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/diagnostic.h"

namespace rannc::tools {

/// Runs `program arguments…` `workers` times with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT as torchrun sets them, OMP_NUM_THREADS = `threads` and OMP_WAIT_POLICY=passive. Workers share this
/// process's standard streams. The first to fail ends the others: SIGTERM, and SIGKILL after a grace of seconds. SIGINT
/// and SIGTERM to this process are passed on. Returns when all are gone; an error names the first failing worker and
/// how it ended. No child is left behind, also when this process is killed.
Result<void> launch_workers(const std::string& program, const std::vector<std::string>& arguments, uint32_t workers,
                            uint32_t threads);

/// A port of 127.0.0.1 that was free a moment ago. Another program may take it first; joining then fails with its
/// number.
Result<uint16_t> free_port();

/// What a worker finds in its environment.
struct WorkerEnvironment {
  uint32_t rank = 0, workers = 1, local_rank = 0;
  std::string master_address;
  uint16_t master_port = 0;
};
/// From torchrun's, Open MPI's or Slurm's variables; nothing where none is set. Two sets that disagree, missing or
/// malformed variables are errors that name them.
Result<std::optional<WorkerEnvironment>> read_worker_environment();

/// The path of this very program.
std::string own_program();

}  // namespace rannc::tools
