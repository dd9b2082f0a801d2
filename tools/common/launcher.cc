#include "tools/common/launcher.h"

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
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/execute/running_clock.h"
#include "runtime/transport/secret.h"
#include "tools/common/end_process.h"
#include "tools/common/report_pipe.h"
#include "tools/common/run_signals.h"
#include "tools/common/worker_environment.h"

namespace rannc::tools {

namespace {

constexpr std::chrono::milliseconds kPoll{20};
constexpr uint32_t kUnwatchedLimits = 10;  // number of time-outs until the first sign of life, and after the last
constexpr size_t kSecretBytes = 32;

using Environment = std::map<std::string, std::string>;

Environment worker_variables(uint32_t rank, const Fleet& fleet, const Listener& meeting, const std::string& secret,
                             int report_pipe) {
  const std::string workers = std::to_string(fleet.workers);
  Environment variables = {{"RANK", std::to_string(rank)},
                           {"LOCAL_RANK", std::to_string(rank)},
                           {"WORLD_SIZE", workers},
                           {"LOCAL_WORLD_SIZE", workers},
                           {"MASTER_ADDR", "127.0.0.1"},
                           {"MASTER_PORT", std::to_string(meeting.port())},
                           {"OMP_NUM_THREADS", std::to_string(fleet.threads)},
                           {"OMP_WAIT_POLICY", "passive"},
                           {kSecretVariable, secret},
                           {kReportPipeVariable, std::to_string(report_pipe)}};
  if (rank == 0) variables.emplace(kListeningSocketVariable, std::to_string(meeting.socket()));
  return variables;
}

/// What to start.
struct Program {
  const std::string& path;
  const std::vector<std::string>& arguments;
};

/// Names in a folder of /proc that are numbers.
std::vector<int> numbers_in(const char* folder) {
  std::vector<int> numbers;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    numbers.push_back(std::atoi(entry.path().filename().c_str()));
  return numbers;
}

/// Closes files and resets signal handlers, as executing a program would.
void forget_launcher() {
  for (const int file : numbers_in("/proc/self/fd")) {
    if ((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0) close(file);
  }
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

/// `inherited` files stay open in the child.
pid_t start(const Program& program, const Environment& variables, const std::vector<int>& inherited,
            const Fleet& fleet) {
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(program.path.c_str()));
  for (const std::string& argument : program.arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  std::fflush(nullptr);  // a fork would print what is not yet written once more
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  if (fleet.ends_in_order) hold_signals();
  for (const int file : inherited) fcntl(file, F_SETFD, 0);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  if (fleet.main != nullptr) {
    forget_launcher();
    end_process(fleet.main(static_cast<int>(argv.size()) - 1, argv.data()));
  }
  execv(program.path.c_str(), argv.data());
  _exit(127);
}

std::string name_of(int signal_number) {
  return fmt::format("signal {} ({})", signal_number, strsignal(signal_number));
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "was killed by " + name_of(WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

bool ended_in_order(int status) {
  return WIFEXITED(status) && (WEXITSTATUS(status) == exit_of(SIGINT) || WEXITSTATUS(status) == exit_of(SIGTERM));
}

struct Child {
  uint32_t rank = 0;
  int report = -1;  // read end of its pipe
  std::optional<std::chrono::milliseconds> stopped_at = {};
  int stopped_by = 0;
  WorkerReports reports = {};
  bool has_shown_life = false;
  std::chrono::milliseconds alive_at{0};  // of the last sign of life
};

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

/// The children of one start and the reason of its failure.
class Crew {
 public:
  /// `replaceable`: whether lost workers can be replaced, so that the others need not end in order.
  Crew(const Fleet& fleet, const RunSignals& signals, bool replaceable)
      : fleet_(fleet), signals_(signals), replaceable_(replaceable) {}
  ~Crew() {
    signal_all(SIGKILL);
    for (auto& [child, about] : alive_) {
      waitpid(child, nullptr, 0);
      close(about.report);
    }
  }

  void add(pid_t child, uint32_t rank, int report) { alive_.emplace(child, Child{.rank = rank, .report = report}); }

  /// Waits until all children have ended.
  Result<int> watch() {
    while (!alive_.empty()) {
      now_ = clock_.now();
      pass_signal_on();
      look();
      listen();
      judge_stopped();
      judge_silent();
      end_others();
      std::this_thread::sleep_for(kPoll);
    }
    if (why_) return error(*why_);
    return signals_.stop_signal() != 0 ? exit_of(signals_.stop_signal()) : in_order_;
  }

  /// Whether it failed because a worker was lost.
  bool lost() const { return lost_; }

 private:
  void signal_all(int number) const {
    for (const auto& [child, about] : alive_) kill(child, number);
  }

  void pass_signal_on() {
    if (passed_on_ || signals_.stop_signal() == 0) return;
    passed_on_ = true;
    signal_all(SIGTERM);
  }

  /// Updates the state of each child.
  void look() {
    for (auto it = alive_.begin(); it != alive_.end();) {
      int status = 0;
      auto& [child, about] = *it;
      if (waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED) != child) {
        ++it;
      } else if (WIFSTOPPED(status)) {
        about.stopped_at = now_;
        about.stopped_by = WSTOPSIG(status);
        ++it;
      } else if (WIFCONTINUED(status)) {
        about.stopped_at.reset();
        about.alive_at = now_;
        ++it;
      } else {
        gone(about, status);
        close(about.report);
        it = alive_.erase(it);
      }
    }
  }

  void listen() {
    for (auto& [child, about] : alive_) {
      if (!about.reports.read(about.report)) continue;
      about.has_shown_life = true;
      about.alive_at = now_;
    }
  }

  // A lost worker takes precedence over one that failed by itself, which may fail because of the lost one.
  void gone(Child& child, int status) {
    child.reports.read(child.report);
    const bool is_lost = WIFSIGNALED(status) || child.reports.hangs();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (ended_in_order(status)) in_order_ = WEXITSTATUS(status);
    const bool was_requested = signals_.stop_signal() != 0 && WIFSIGNALED(status) &&
                               (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT);
    if (ended_in_order(status) || was_requested || (why_ && !(by_itself_ && is_lost))) return;
    by_itself_ = !is_lost;
    lost_ = is_lost;
    const std::string& report = child.reports.reason();
    fail(report.empty() ? fmt::format("worker {} {}; the others were stopped", child.rank, how_it_ended(status))
                        : report);
  }

  /// A stopped worker is the reason why another one failed, or fails the run itself.
  void judge_stopped() {
    for (const auto& [process, child] : alive_) {
      if (!child.stopped_at || (why_ && !by_itself_)) continue;
      const auto since = now_ - *child.stopped_at;
      if (since < fleet_.timeout && !why_) continue;
      by_itself_ = false;
      lost_ = true;
      fail(fmt::format("worker {} was stopped by {} and did not continue within {:.0f} s; the others were ended",
                       child.rank, name_of(child.stopped_by), seconds(since)));
      kill(process, SIGKILL);
    }
  }

  /// A worker that does not run is the reason why another one failed, or fails the run itself.
  void judge_silent() {
    for (const auto& [process, child] : alive_) {
      if (!fleet_.shows_life || child.stopped_at || (why_ && !by_itself_)) continue;
      const auto since = now_ - child.alive_at;
      const bool is_expected = (child.has_shown_life || why_) && !child.reports.ends();
      if (since < fleet_.timeout * (is_expected ? 1 : kUnwatchedLimits)) continue;
      by_itself_ = false;
      lost_ = true;
      fail(fmt::format("worker {} hangs: its process {} has shown no life for {:.1f} s{}; the others were ended",
                       child.rank, process, seconds(since), child.has_shown_life ? "" : " since its start"));
      kill(process, SIGKILL);
    }
  }

  void fail(std::string why) {
    why_ = std::move(why);
    if (lost_ && replaceable_ && signals_.stop_signal() == 0) deadline_ = now_;
    if (!deadline_) deadline_ = now_ + fleet_.grace;  // workers notify each other of the reason and then end
  }

  void end_others() {
    if (!deadline_ || now_ < *deadline_) return;
    by_itself_ = false;
    signal_all(SIGKILL);
    if (now_ < *deadline_ + fleet_.grace) return;
    for (const auto& [process, child] : alive_) {
      *why_ += fmt::format("; process {} of worker {} does not end after SIGKILL, because the kernel waits in it",
                           process, child.rank);
      close(child.report);
    }
    alive_.clear();
  }

  const Fleet& fleet_;
  const RunSignals& signals_;
  bool replaceable_;
  std::map<pid_t, Child> alive_;
  runtime::RunningClock clock_;
  std::chrono::milliseconds now_{0};
  std::optional<std::chrono::milliseconds> deadline_;
  std::optional<std::string> why_;
  bool by_itself_ = false;  // `why_` is the report of a worker that ended by itself
  bool lost_ = false;       // `why_` is the loss of a worker
  bool passed_on_ = false;
  int in_order_ = 0;
};

/// A pipe with a non-blocking read end.
Result<std::pair<int, int>> make_report_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return error(fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return std::pair(ends[0], ends[1]);
}

Result<void> start_all(const Program& program, const Fleet& fleet, bool resumes, Crew& crew) {
  if (fleet.main != nullptr) RANNC_CHECK(numbers_in("/proc/self/task").size() == 1) << "a fork has one thread";
  RANNC_ASSIGN(Listener meeting, Listener::open());
  RANNC_ASSIGN(const std::string secret, runtime::random_hex(kSecretBytes));
  for (uint32_t rank = 0; rank < fleet.workers; ++rank) {
    RANNC_ASSIGN(const auto report, make_report_pipe());
    std::vector<int> inherited{report.second};
    if (rank == 0) inherited.push_back(meeting.socket());
    Environment variables = worker_variables(rank, fleet, meeting, secret, report.second);
    if (resumes) variables.emplace(kResumesVariable, "1");
    const pid_t child = start(program, variables, inherited, fleet);
    const int reason = errno;
    close(report.second);
    if (child < 0) {
      close(report.first);
      return error(fmt::format("worker {} could not be started: {}", rank, std::strerror(reason)));
    }
    crew.add(child, rank, report.first);
  }
  // From here on only worker 0 holds the socket, so connections to a dead worker 0 are refused.
  meeting.close();
  return {};
}

}  // namespace

Result<Listener> Listener::open() {
  Listener listener;
  listener.socket_ = OwnedFile(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (!listener.socket_.valid() || bind(listener.socket(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.socket(), SOMAXCONN) != 0 ||
      getsockname(listener.socket(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return error(fmt::format("no port is free on 127.0.0.1: {}", std::strerror(errno)));
  }
  listener.port_ = ntohs(address.sin_port);
  return listener;
}

Result<int> launch_workers(const std::string& program, const std::vector<std::string>& arguments, const Fleet& fleet) {
  const RunSignals signals({.announces = fleet.ends_in_order});
  bool resumes = false;
  for (uint32_t restarts = 0;; ++restarts) {
    Crew crew(fleet, signals, restarts < fleet.restarts);
    RANNC_TRY(start_all({program, arguments}, fleet, resumes, crew));
    Result<int> ended = crew.watch();
    if (!crew.lost() || fleet.restarts == 0 || signals.stop_signal() != 0) return ended;
    const std::string& reason = ended.diagnostic().message;
    if (restarts == fleet.restarts) return error(fmt::format("{}; restarts used up: {}", reason, restarts));
    resumes = fleet.restart({restarts + 1, reason});
  }
}

std::string own_program() {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return path;
}

std::string program_beside(const std::string& name) {
  return (std::filesystem::path(own_program()).parent_path() / name).string();
}

}  // namespace rannc::tools
