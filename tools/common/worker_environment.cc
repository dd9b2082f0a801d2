#include "tools/common/worker_environment.h"

#include <fmt/format.h>

#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace rannc::tools {

namespace {

constexpr uint32_t kFirstPort = 10000, kPorts = 20000;  // below the ephemeral ports

struct Launcher {
  const char* name;
  const char* workers;
  const char* rank;
  const char* local_rank;
  const char* machine;  // used by `one_machine` to detect that all workers run here
  const char* job;      // identifies the run, equal for all its workers
  const char* step;
};
constexpr Launcher kLaunchers[] = {
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK", nullptr, nullptr, nullptr},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES", "SLURM_JOB_ID",
     "SLURM_STEP_ID"},
};

std::string variable(const char* name) {
  const char* text = name == nullptr ? nullptr : std::getenv(name);
  return text == nullptr ? "" : text;
}

Result<uint64_t> integer_variable(const char* name, uint64_t limit) {
  const char* text = std::getenv(name);
  if (text == nullptr)
    return error({{}, 0, 0, name}, "environment variable is not set, though others of its launcher are");
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(text, text + std::strlen(text), value);
  if (status != std::errc() || *end != '\0' || value > limit) {
    return error({{}, 0, 0, name},
                 fmt::format("environment variable is '{}', expected an integer up to {}", text, limit));
  }
  return value;
}

/// mpirun provides the number of workers on this machine, srun the number of machines.
bool one_machine(const Launcher& launcher, const WorkerEnvironment& worker) {
  const std::string count = variable(launcher.machine);
  return count == (std::strcmp(launcher.name, "mpirun") == 0 ? std::to_string(worker.workers) : "1");
}

uint16_t port_of_job(const std::string& job) {
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619;
  return static_cast<uint16_t>(kFirstPort + hash % kPorts);
}

Result<void> find_meeting_place(const Launcher& launcher, WorkerEnvironment& worker) {
  worker.master_address = variable("MASTER_ADDR");
  if (!worker.master_address.empty()) {
    RANNC_ASSIGN(const uint64_t port, integer_variable("MASTER_PORT", UINT16_MAX));
    worker.master_port = static_cast<uint16_t>(port);
    return {};
  }
  const std::string job = variable(launcher.job) + "." + variable(launcher.step);
  if (job == "." || !one_machine(launcher, worker)) {
    return error(
        {{}, 0, 0, "MASTER_ADDR"},
        fmt::format("environment variable is not set: {} gives worker {} of {} no address to meet the others; set "
                    "MASTER_ADDR to worker 0's machine and MASTER_PORT to a free port there",
                    launcher.name, worker.rank, worker.workers));
  }
  worker.master_address = "127.0.0.1";
  worker.master_port = port_of_job(job);
  return {};
}

Result<WorkerEnvironment> read(const Launcher& launcher) {
  WorkerEnvironment worker;
  worker.launcher = launcher.name;
  RANNC_ASSIGN(const uint64_t workers, integer_variable(launcher.workers, UINT16_MAX));
  worker.workers = static_cast<uint32_t>(workers);
  if (workers == 0) return error({{}, 0, 0, launcher.workers}, "environment variable is 0, expected at least 1 worker");
  RANNC_ASSIGN(const uint64_t rank, integer_variable(launcher.rank, workers - 1));
  worker.rank = worker.local_rank = static_cast<uint32_t>(rank);
  RANNC_TRY(find_meeting_place(launcher, worker));
  return worker;
}

Result<WorkerEnvironment> read_own() {
  RANNC_ASSIGN(WorkerEnvironment worker, read(kLaunchers[0]));
  worker.launcher = "rannc-run";
  RANNC_ASSIGN(const uint64_t pipe, integer_variable(kReportPipeVariable, INT_MAX));
  worker.report_pipe = static_cast<int>(pipe);
  if (worker.rank == 0) {
    RANNC_ASSIGN(const uint64_t socket, integer_variable(kListeningSocketVariable, INT_MAX));
    worker.listening_socket = static_cast<int>(socket);
  }
  return worker;
}

}  // namespace

Result<std::optional<WorkerEnvironment>> read_worker_environment() {
  if (!variable(kReportPipeVariable).empty()) {
    RANNC_ASSIGN(WorkerEnvironment worker, read_own());
    return std::optional(std::move(worker));
  }
  for (const Launcher& launcher : kLaunchers) {
    if (variable(launcher.workers).empty()) continue;
    RANNC_ASSIGN(const uint64_t workers, integer_variable(launcher.workers, UINT16_MAX));
    if (workers < 2) continue;
    RANNC_ASSIGN(WorkerEnvironment worker, read(launcher));
    if (!variable(launcher.local_rank).empty()) {
      RANNC_ASSIGN(const uint64_t local_rank, integer_variable(launcher.local_rank, workers - 1));
      worker.local_rank = static_cast<uint32_t>(local_rank);
    }
    if (&launcher == &kLaunchers[0]) {
      worker.torch_store = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
      worker.torch_round = variable("TORCHELASTIC_RESTART_COUNT");
    }
    return std::optional(std::move(worker));
  }
  return std::optional<WorkerEnvironment>();
}

}  // namespace rannc::tools
