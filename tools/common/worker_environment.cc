#include "tools/common/worker_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace rannc::tools {

namespace {

constexpr uint32_t kFirstPort = 10000, kPorts = 20000;  // below the ephemeral ports

constexpr size_t kShortestSecret = 16;

constexpr const char* kMpiexec = "mpiexec";

struct Launcher {
  const char* name;
  const char* workers;
  const char* rank;
  const char* local_rank;
  const char* machine;  // used by `one_machine` to detect that all workers run here
  const char* job;      // identifies the run, equal for all its workers
  const char* step;
  const char* hosts;      // list of machines, the first of which runs worker 0
  const char* job_hosts;  // the same, if `hosts` is not set
};
constexpr Launcher kLaunchers[] = {
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK", nullptr, nullptr, nullptr, nullptr, nullptr},
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", nullptr, nullptr},
    {kMpiexec, "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", nullptr, nullptr, nullptr, nullptr, nullptr},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_NODES", "SLURM_JOB_ID",
     "SLURM_STEP_ID", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"},
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

/// Returns the first host of Slurm's list, such as `node[07-09,12]-ib,login1`.
std::string first_host(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket > comma || bracket == std::string::npos) return list.substr(0, comma);
  const size_t number_end = list.find_first_of("-,]", bracket), closing = list.find(']', bracket);
  if (closing == std::string::npos) return {};
  const std::string number = list.substr(bracket + 1, number_end - bracket - 1);
  return list.substr(0, bracket) + number + list.substr(closing + 1, list.find(',', closing) - closing - 1);
}

/// Returns the machine of worker 0, if the launcher or the run's being on one machine determines it.
std::string first_machine(const Launcher& launcher, const WorkerEnvironment& worker) {
  if (one_machine(launcher, worker)) return "127.0.0.1";
  const std::string of_step = variable(launcher.hosts);
  return first_host(of_step.empty() ? variable(launcher.job_hosts) : of_step);
}

Result<void> read_master(const std::string& text, WorkerEnvironment& worker) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);  // an IPv6 address
  const auto [end, status] = std::from_chars(port.data(), port.data() + port.size(), worker.master_port);
  if (host.empty() || status != std::errc() || end != port.data() + port.size() || worker.master_port == 0)
    return error(fmt::format("--master {}: expected HOST:PORT with a port up to {}", text, UINT16_MAX));
  worker.master_address = host;
  return {};
}

/// Reads flags and MASTER_ADDR. The address stays empty if neither is given.
Result<void> read_meeting_place(const WorkerFlags& flags, WorkerEnvironment& worker) {
  if (!flags.master.empty()) return read_master(flags.master, worker);
  worker.master_address = variable("MASTER_ADDR");
  if (worker.master_address.empty()) return {};
  RANNC_ASSIGN(const uint64_t port, integer_variable("MASTER_PORT", UINT16_MAX));
  worker.master_port = static_cast<uint16_t>(port);
  return {};
}

Result<void> find_meeting_place(const Launcher& launcher, const WorkerFlags& flags, WorkerEnvironment& worker) {
  RANNC_TRY(read_meeting_place(flags, worker));
  if (!worker.master_address.empty()) return {};
  const std::string job = variable(launcher.job) + "." + variable(launcher.step);
  if (job != ".") worker.master_address = first_machine(launcher, worker);
  worker.master_port = port_of_job(job);
  if (!worker.master_address.empty()) return {};
  return error(
      {{}, 0, 0, "MASTER_ADDR"},
      fmt::format("environment variable is not set: {} gives worker {} of {} no address to meet the others; set "
                  "MASTER_ADDR to worker 0's machine and MASTER_PORT to a free port there, or give --master HOST:PORT",
                  launcher.name, worker.rank, worker.workers));
}

Result<WorkerEnvironment> read(const Launcher& launcher, const WorkerFlags& flags) {
  WorkerEnvironment worker;
  worker.launcher = launcher.name;
  worker.insecure = flags.insecure;
  RANNC_ASSIGN(const uint64_t workers, integer_variable(launcher.workers, UINT16_MAX));
  worker.workers = static_cast<uint32_t>(workers);
  if (workers == 0) return error({{}, 0, 0, launcher.workers}, "environment variable is 0, expected at least 1 worker");
  RANNC_ASSIGN(const uint64_t rank, integer_variable(launcher.rank, workers - 1));
  worker.rank = worker.local_rank = static_cast<uint32_t>(rank);
  RANNC_TRY(find_meeting_place(launcher, flags, worker));
  return worker;
}

Result<WorkerEnvironment> read_own() {
  RANNC_ASSIGN(WorkerEnvironment worker, read(kLaunchers[0], {}));
  worker.launcher = "rannc-run";
  RANNC_ASSIGN(const uint64_t pipe, integer_variable(kReportPipeVariable, INT_MAX));
  worker.report_pipe = static_cast<int>(pipe);
  worker.resumes = !variable(kResumesVariable).empty();
  if (worker.rank == 0) {
    RANNC_ASSIGN(const uint64_t socket, integer_variable(kListeningSocketVariable, INT_MAX));
    worker.listening_socket = static_cast<int>(socket);
  }
  return worker;
}

Result<WorkerEnvironment> read_flags(const WorkerFlags& flags) {
  if (!flags.rank || !flags.world) return error("--rank and --world: give both");
  WorkerEnvironment worker;
  worker.by_flags = true;
  worker.insecure = flags.insecure;
  worker.workers = *flags.world;
  worker.rank = worker.local_rank = *flags.rank;
  if (worker.workers == 0 || worker.workers > UINT16_MAX)
    return error(fmt::format("--world {}: expected 1 to {} workers", worker.workers, UINT16_MAX));
  if (worker.rank >= worker.workers)
    return error(
        fmt::format("--rank {}: expected a number below that of the workers, --world {}", worker.rank, worker.workers));
  RANNC_TRY(read_meeting_place(flags, worker));
  if (!worker.master_address.empty()) return worker;
  worker.master_address = "127.0.0.1";
  if (worker.workers == 1) return worker;
  return error("--master: give HOST:PORT, the same for all workers: worker 0 listens there");
}

/// Whether the launcher's variables belong to this process. Slurm may set those of MPICH, too.
bool has_started_this(const Launcher& launcher) {
  if (variable(launcher.workers).empty()) return false;
  return std::strcmp(launcher.name, kMpiexec) != 0 || variable("SLURM_STEP_NUM_TASKS").empty() ||
         !variable("MPI_LOCALNRANKS").empty();
}

}  // namespace

Result<std::string> take_secret() {
  char* const text = std::getenv(kSecretVariable);
  if (text == nullptr) return std::string();
  std::string secret = text;
  std::fill_n(text, secret.size(), '\0');
  unsetenv(kSecretVariable);
  if (secret.size() >= kShortestSecret) return secret;
  return error({{}, 0, 0, kSecretVariable}, fmt::format("environment variable has {} characters, expected at least {}",
                                                        secret.size(), kShortestSecret));
}

Result<std::optional<WorkerEnvironment>> read_worker_environment(const WorkerFlags& flags) {
  if (!variable(kReportPipeVariable).empty()) {
    RANNC_ASSIGN(WorkerEnvironment worker, read_own());
    return std::optional(std::move(worker));
  }
  if (flags.rank || flags.world) {
    RANNC_ASSIGN(WorkerEnvironment worker, read_flags(flags));
    return std::optional(std::move(worker));
  }
  for (const Launcher& launcher : kLaunchers) {
    if (!has_started_this(launcher)) continue;
    RANNC_ASSIGN(const uint64_t workers, integer_variable(launcher.workers, UINT16_MAX));
    if (workers < 2) continue;
    RANNC_ASSIGN(WorkerEnvironment worker, read(launcher, flags));
    if (!variable(launcher.local_rank).empty()) {
      RANNC_ASSIGN(const uint64_t local_rank, integer_variable(launcher.local_rank, workers - 1));
      worker.local_rank = static_cast<uint32_t>(local_rank);
    }
    if (&launcher == &kLaunchers[0]) {
      worker.torch_store = flags.master.empty() && variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
      worker.torch_round = variable("TORCHELASTIC_RESTART_COUNT");
    }
    return std::optional(std::move(worker));
  }
  if (!flags.master.empty()) return error(fmt::format("--master {}: no rank is known; {}", flags.master, kHowToStart));
  return std::optional<WorkerEnvironment>();
}

}  // namespace rannc::tools
