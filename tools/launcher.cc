#include "tools/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

namespace rannc::tools {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kGrace{5};
constexpr std::chrono::milliseconds kPoll{20};

volatile sig_atomic_t g_signal = 0;  // the only thing a signal handler may touch

void remember_signal(int number) { g_signal = number; }

/// Passes interrupts on for as long as it lives.
class SignalGuard {
 public:
  SignalGuard() {
    g_signal = 0;
    struct sigaction action {};
    action.sa_handler = remember_signal;
    sigaction(SIGINT, &action, &old_interrupt_);
    sigaction(SIGTERM, &action, &old_terminate_);
  }
  ~SignalGuard() {
    sigaction(SIGINT, &old_interrupt_, nullptr);
    sigaction(SIGTERM, &old_terminate_, nullptr);
  }

 private:
  struct sigaction old_interrupt_ {
  }, old_terminate_{};
};

using Environment = std::map<std::string, std::string>;

constexpr const char* kListeningSocket = "RANNC_LISTENING_SOCKET";

Environment worker_variables(uint32_t rank, uint32_t workers, const Listener& meeting, uint32_t threads) {
  Environment variables = {{"RANK", std::to_string(rank)},
                           {"LOCAL_RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(workers)},
                           {"LOCAL_WORLD_SIZE", std::to_string(workers)},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(meeting.port())},
                           {"OMP_NUM_THREADS", std::to_string(threads)},
                           {"OMP_WAIT_POLICY", "passive"}};
  if (rank == 0) variables.emplace(kListeningSocket, std::to_string(meeting.socket()));
  return variables;
}

/// `inherited` stays open in the child; -1: no socket does.
pid_t start(const std::string& program, const std::vector<std::string>& arguments, const Environment& variables,
            int inherited) {
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(program.c_str()));
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  execv(program.c_str(), argv.data());
  _exit(127);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

/// The children of one run.
class Crew {
 public:
  ~Crew() {
    signal_all(SIGKILL);
    for (const auto& [child, rank] : alive_) waitpid(child, nullptr, 0);
  }
  void add(pid_t child, uint32_t rank) { alive_.emplace(child, rank); }
  bool empty() const { return alive_.empty(); }
  void signal_all(int number) const {
    for (const auto& [child, rank] : alive_) kill(child, number);
  }
  /// One that ended since the last call.
  std::optional<std::pair<uint32_t, int>> reap() {
    for (const auto& [child, rank] : alive_) {
      int status = 0;
      if (waitpid(child, &status, WNOHANG) != child) continue;
      const std::pair<uint32_t, int> ended{rank, status};
      alive_.erase(child);
      return ended;
    }
    return std::nullopt;
  }

 private:
  std::map<pid_t, uint32_t> alive_;
};

/// Waits until all are gone. A killed worker is named before one that ended by itself: it fails by the other's death,
/// and may be seen first.
Result<void> watch(Crew& crew) {
  std::optional<Diagnostic> first;
  bool by_itself = false;
  std::optional<Clock::time_point> deadline;
  while (!crew.empty()) {
    if (g_signal != 0 && !first) first = error(fmt::format("stopped by signal {} ({})", g_signal, strsignal(g_signal)));
    while (const auto ended = crew.reap()) {
      const auto [rank, status] = *ended;
      if (status == 0 || (first && !(by_itself && WIFSIGNALED(status)))) continue;
      first = error(fmt::format("worker {} {}; the others were stopped", rank, how_it_ended(status)));
      by_itself = WIFEXITED(status);
    }
    if (first && !deadline) {
      // Workers tell each other why: those that hear of it end by themselves.
      if (g_signal != 0) crew.signal_all(SIGTERM);
      deadline = Clock::now() + kGrace;
    }
    if (deadline && Clock::now() > *deadline) {
      crew.signal_all(SIGKILL);
      by_itself = false;
    }
    std::this_thread::sleep_for(kPoll);
  }
  return first ? Result<void>(*first) : Result<void>();
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

struct LauncherNames {
  const char* name;
  const char* rank;
  const char* workers;
  const char* local_rank;
};
constexpr LauncherNames kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

}  // namespace

Result<Listener> Listener::open() {
  Listener listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (listener.socket_ < 0 || bind(listener.socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.socket_, SOMAXCONN) != 0 ||
      getsockname(listener.socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return error(fmt::format("no port is free on 127.0.0.1: {}", std::strerror(errno)));
  }
  listener.port_ = ntohs(address.sin_port);
  return listener;
}

Listener::Listener(Listener&& other) noexcept : socket_(other.release()), port_(other.port_) {}

Listener::~Listener() {
  if (socket_ >= 0) close(socket_);
}

int Listener::release() { return std::exchange(socket_, -1); }

Result<void> launch_workers(const std::string& program, const std::vector<std::string>& arguments, uint32_t workers,
                            uint32_t threads) {
  RANNC_ASSIGN(Listener meeting, Listener::open());
  const SignalGuard signals;
  Crew crew;
  for (uint32_t rank = 0; rank < workers; ++rank) {
    const pid_t child =
        start(program, arguments, worker_variables(rank, workers, meeting, threads), rank == 0 ? meeting.socket() : -1);
    if (child < 0) return error(fmt::format("worker {} could not be started: {}", rank, std::strerror(errno)));
    crew.add(child, rank);
  }
  // From here on worker 0 alone holds it: who connects to a dead worker 0 is told so.
  close(meeting.release());
  return watch(crew);
}

Result<std::optional<WorkerEnvironment>> read_worker_environment() {
  std::optional<WorkerEnvironment> found;
  const char* from = nullptr;
  for (const LauncherNames& launcher : kLaunchers) {
    if (std::getenv(launcher.rank) == nullptr) continue;
    WorkerEnvironment worker;
    RANNC_ASSIGN(const uint64_t rank, integer_variable(launcher.rank, UINT16_MAX));
    RANNC_ASSIGN(const uint64_t workers, integer_variable(launcher.workers, UINT16_MAX));
    RANNC_ASSIGN(const uint64_t local, integer_variable(launcher.local_rank, UINT16_MAX));
    worker.rank = static_cast<uint32_t>(rank);
    worker.workers = static_cast<uint32_t>(workers);
    worker.local_rank = static_cast<uint32_t>(local);
    if (found) {
      if (found->rank == worker.rank && found->workers == worker.workers) continue;
      return error(
          fmt::format("the environment says worker {} of {} by {} and worker {} of {} by {}: unset one of them",
                      found->rank, found->workers, from, worker.rank, worker.workers, launcher.name));
    }
    from = launcher.name;
    const char* address = std::getenv("MASTER_ADDR");
    if (address == nullptr)
      return error({{}, 0, 0, "MASTER_ADDR"}, "environment variable is not set: workers need a place to meet");
    worker.master_address = address;
    RANNC_ASSIGN(const uint64_t port, integer_variable("MASTER_PORT", UINT16_MAX));
    worker.master_port = static_cast<uint16_t>(port);
    if (worker.rank == 0 && std::getenv(kListeningSocket) != nullptr) {
      RANNC_ASSIGN(const uint64_t number, integer_variable(kListeningSocket, INT_MAX));
      worker.listening_socket = static_cast<int>(number);
    }
    found = worker;
  }
  return found;
}

std::string own_program() {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return path;
}

}  // namespace rannc::tools
