// Workers of one machine: their meeting place, who is named when one fails, and that none is left.
#include "tools/common/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tools/common/run_signals.h"
#include "tools/common/scratch.h"

namespace rannc::tools {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kShort{300};

// Of a bind to `port` by somebody else; 0: it was free.
int bind_error(uint16_t port) {
  const int other = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int status = bind(other, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(other);
  return status;
}

Result<int> launch(const std::string& script, Fleet fleet = {.workers = 2}) {
  return launch_workers("/bin/sh", {"-c", script}, fleet);
}

TEST(Launcher, NobodyElseCanTakeThePort) {
  auto listener = Listener::open();
  ASSERT_TRUE(listener.ok()) << listener.diagnostic().str();
  EXPECT_EQ(bind_error(listener->port()), EADDRINUSE);
  const Listener moved = std::move(*listener);
  EXPECT_EQ(bind_error(moved.port()), EADDRINUSE);
}

TEST(Launcher, WorkerZeroAloneInheritsTheListeningSocket) {
  const Result<int> done = launch(
      "test $MASTER_PORT -gt 0 || exit 3\n"
      "if [ $RANK = 0 ]; then test -S /proc/self/fd/$RANNC_LISTENING_SOCKET || exit 4\n"
      "else test -z \"$RANNC_LISTENING_SOCKET\" || exit 5; fi");
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
}

TEST(Launcher, WorkersOfAStartShareARandomSecret) {
  const Scratch scratch;
  const auto secret = [&](const char* start) {
    const std::string path = scratch.path() + "/" + start;
    EXPECT_TRUE(launch("echo $RANNC_SECRET >> " + path).ok());
    std::ifstream file(path);
    std::string first, second;
    std::getline(file, first), std::getline(file, second);
    EXPECT_EQ(first, second);
    EXPECT_EQ(first.size(), 64U);
    return first;
  };
  EXPECT_NE(secret("first"), secret("second"));
}

TEST(Launcher, TheFirstFailureIsNamed) {
  const Result<int> failed = launch("test $RANK != 1 || exit 7", {.workers = 3});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("worker 1 ended with exit code 7"));
}

// The one that is killed may be seen to end after those that fail by its death.
TEST(Launcher, AKilledWorkerIsNamedBeforeThoseThatFailByItsDeath) {
  const Result<int> failed = launch("if [ $RANK = 0 ]; then exit 1; fi; kill -9 $$");
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("worker 1 was killed by signal 9"));
}

TEST(Launcher, WhatAWorkerReportsIsTheError) {
  const Result<int> failed =
      launch("test $RANK = 0 || { printf 'worker 1: the disk is full' >&$RANNC_REPORT_PIPE; exit 1; }");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.diagnostic().str(), "error: worker 1: the disk is full");
}

// Worker 1 would wait for ever.
TEST(Launcher, AStoppedWorkerEndsTheRun) {
  const Result<int> failed = launch("if [ $RANK = 0 ]; then kill -STOP $$; fi; exec sleep 1000",
                                    {.workers = 2, .timeout = kShort, .grace = kShort});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("worker 0 was stopped by signal 19"));
}

// Its failure is that of the other, which fails by it.
TEST(Launcher, AStoppedWorkerIsNamedBeforeThoseThatFailByIt) {
  const Result<int> failed = launch("if [ $RANK = 0 ]; then kill -STOP $$; fi; sleep 0.3; exit 1");
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("worker 0 was stopped by signal 19"));
}

// It reports the hang itself, and the other fails because of it.
TEST(Launcher, AWorkerThatHangsIsNamedBeforeThoseThatFailByIt) {
  const Result<int> failed = launch(
      "if [ $RANK = 0 ]; then exit 1; fi; sleep 0.3; printf '\\0\\1worker 1 hangs' >&$RANNC_REPORT_PIPE; exit 1");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.diagnostic().str(), "error: worker 1 hangs");
}

TEST(Launcher, AWorkerThatShowsNoLifeEndsTheRun) {
  const Result<int> failed = launch(
      "while test $RANK = 0; do printf '\\0' >&$RANNC_REPORT_PIPE; sleep 0.05; done; printf '\\0' "
      ">&$RANNC_REPORT_PIPE\n"
      "exec sleep 1000",
      {.workers = 2, .timeout = std::chrono::milliseconds(1500), .grace = kShort, .shows_life = true});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("worker 1 hangs: its process "));
}

// The end of a process may take longer.
TEST(Launcher, NoLifeIsExpectedAfterTheLastSign) {
  const Result<int> done = launch("printf '\\0\\2' >&$RANNC_REPORT_PIPE; test $RANK = 0 || sleep 0.5",
                                  {.workers = 2, .timeout = std::chrono::milliseconds(200), .shows_life = true});
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
}

// It has longer to start, unless others fail because they wait for it.
TEST(Launcher, AWorkerThatDoesNotStartIsNamedBeforeThoseThatFailByIt) {
  const Result<int> failed = launch("test $RANK = 0 || exec sleep 1000; sleep 1.6; exit 1",
                                    {.workers = 2, .timeout = std::chrono::milliseconds(1500), .shows_life = true});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(),
              testing::AllOf(HasSubstr("worker 1 hangs: its process "), HasSubstr(" since its start")));
}

TEST(Launcher, AWorkerThatGoesOnIsLeftAlone) {
  const Result<int> done = launch("if [ $RANK = 0 ]; then (sleep 0.2; kill -CONT $$) & kill -STOP $$; fi; sleep 0.2",
                                  {.workers = 2, .timeout = std::chrono::seconds(30)});
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
}

TEST(Launcher, AProgramThatCannotBeStartedIsAnError) {
  const Result<int> failed = launch_workers("/nowhere/at-all", {}, {.workers = 2});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(), HasSubstr("exit code 127"));
}

int forked_worker(int argc, char** argv) {
  const auto is = [](const char* name, const char* value) {
    const char* const found = std::getenv(name);
    return found != nullptr && std::string(found) == value;
  };
  if (argc != 2 || std::string(argv[0]) != "the program" || std::string(argv[1]) != "an argument") return 3;
  if (!is("WORLD_SIZE", "2")) return 4;
  if (is("RANK", "0") != (std::getenv("RANNC_LISTENING_SOCKET") != nullptr)) return 5;
  // Standard streams, the pipe and the listening socket are there, and nothing that an executed program would not have.
  std::error_code failed;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    const int number = std::atoi(file.path().filename().c_str());
    if (number > STDERR_FILENO && (fcntl(number, F_GETFD) & FD_CLOEXEC) != 0 &&
        std::filesystem::read_symlink(file.path(), failed).string().find("/proc") == std::string::npos)
      return 6;
  }
  struct sigaction action = {};
  for (const int number : {SIGINT, SIGTERM}) {
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return 7;
  }
  return is("RANK", "1") ? 9 : 0;
}

TEST(Launcher, AForkIsLikeAnExecutedProgram) {
  const Result<int> failed = launch_workers("the program", {"an argument"}, {.workers = 2, .main = forked_worker});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.diagnostic().message, "worker 1 ended with exit code 9; the others were stopped");
}

class Restarts : public ::testing::Test {
 protected:
  /// Runs two workers in the folder of the test, in which `starts` has a line per start of worker 0.
  Result<int> launch_in_folder(const std::string& script, uint32_t restarts) {
    return launch("cd " + scratch_.path() + "; if [ $RANK = 0 ]; then echo $MASTER_PORT >> starts; fi\n" + script,
                  {.workers = 2, .grace = kShort, .restarts = restarts, .restart = [this](const Restart& restart) {
                     numbers_.push_back(restart.number);
                     reasons_.push_back(restart.reason);
                     return resumes_;
                   }});
  }
  std::vector<std::string> ports() const {
    std::ifstream file(scratch_.path() + "/starts");
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) found.push_back(line);
    return found;
  }

  Scratch scratch_;
  std::vector<uint32_t> numbers_;
  std::vector<std::string> reasons_;
  bool resumes_ = true;
};

// The other worker would go on for ever.
TEST_F(Restarts, AllWorkersStartAgainAfterOneWasLost) {
  const Result<int> done = launch_in_folder(
      "test -z \"$RANNC_RESUMES\" || exit 0\n"
      "if [ $RANK = 1 ]; then while ! test -e starts; do sleep 0.01; done; kill -9 $$; fi; exec sleep 1000",
      3);
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  EXPECT_THAT(numbers_, testing::ElementsAre(1));
  EXPECT_THAT(reasons_, testing::ElementsAre(HasSubstr("worker 1 was killed by signal 9")));
  ASSERT_EQ(ports().size(), 2U);
}

TEST_F(Restarts, ARestartFromTheBeginningDoesNotResume) {
  resumes_ = false;
  const Result<int> done =
      launch_in_folder("test -z \"$RANNC_RESUMES\" || exit 1; mkdir $RANK 2> /dev/null || exit 0; kill -9 $$", 5);
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  EXPECT_FALSE(numbers_.empty());
}

TEST_F(Restarts, AreUsedUpOnce) {
  const Result<int> failed = launch_in_folder("if [ $RANK = 1 ]; then kill -9 $$; fi", 2);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.diagnostic().str(),
              testing::AllOf(HasSubstr("worker 1 was killed by signal 9"), HasSubstr("restarts used up: 2")));
  EXPECT_THAT(numbers_, testing::ElementsAre(1, 2));
}

TEST_F(Restarts, AWorkerThatHangsIsLost) {
  const Result<int> done = launch_in_folder(
      "test -z \"$RANNC_RESUMES\" || exit 0\n"
      "if [ $RANK = 1 ]; then printf '\\1worker 1 hangs' >&$RANNC_REPORT_PIPE; exit 1; fi; exec sleep 1000",
      1);
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  EXPECT_THAT(reasons_, testing::ElementsAre("worker 1 hangs"));
}

// Ends no more than a process that waits for a disk in the kernel: a zombie is shown to its tracer first.
constexpr const char* kHeldProcess = R"(exec python3 -c '
import ctypes, os, time
call, worker, (ready, go) = ctypes.CDLL(None), os.getpid(), os.pipe()
tracer = os.fork()
if tracer == 0:
    os.read(ready, 1)
    PTRACE_SEIZE = 0x4206
    open("held" if call.ptrace(PTRACE_SEIZE, worker, None, None) == 0 else "refused", "w").close()
    while os.path.exists("held"): time.sleep(0.01)
    os._exit(0)
PR_SET_PTRACER = 0x59616d61
call.prctl(PR_SET_PTRACER, tracer, 0, 0, 0)
os.write(go, b"x")
while True: time.sleep(1000)
')";

TEST_F(Restarts, AProcessThatTheKernelHoldsIsLeftBehind) {
  const Result<int> done =
      launch_in_folder(std::string("test -z \"$RANNC_RESUMES\" || exit 0\nif [ $RANK = 0 ]; then\n"
                                   "while ! test -e held && ! test -e refused; do sleep 0.01; done; kill -9 $$; fi\n") +
                           kHeldProcess,
                       1);
  if (std::ifstream(scratch_.path() + "/refused")) GTEST_SKIP() << "processes may not be traced here";
  EXPECT_TRUE(done.ok()) << done.diagnostic().str();
  EXPECT_THAT(reasons_, testing::ElementsAre(testing::AllOf(HasSubstr("worker 0 was killed"),
                                                            HasSubstr(" of worker 1 does not end after SIGKILL"))));
}

TEST_F(Restarts, AWorkerThatEndsByItselfIsNotLost) {
  const Result<int> failed =
      launch_in_folder("test $RANK = 0 || { printf 'worker 1: no such file' >&$RANNC_REPORT_PIPE; exit 1; }", 2);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.diagnostic().message, "worker 1: no such file");
  EXPECT_THAT(numbers_, testing::IsEmpty());
}

TEST_F(Restarts, AreNotForARunThatWasAskedToEnd) {
  const auto requested = [this] {
    const Result<int> failed =
        launch_in_folder("trap '' TERM; if [ $RANK = 1 ]; then kill -TERM $PPID; sleep 0.1; kill -9 $$; fi", 2);
    _exit(!failed.ok() && numbers_.empty() ? 7 : 8);
  };
  EXPECT_EXIT(requested(), testing::ExitedWithCode(7), "");
}

TEST(RunSignals, TheFirstIsRememberedAndTheSecondEndsAtOnce) {
  const auto twice = [](int pause_us) {
    const RunSignals signals({});
    raise(SIGINT);
    usleep(static_cast<useconds_t>(pause_us));
    raise(SIGTERM);
    _exit(signals.stop_signal());
  };
  EXPECT_EXIT(twice(400'000), testing::ExitedWithCode(exit_of(SIGTERM)), "ending after this step");
  EXPECT_EXIT(twice(0), testing::ExitedWithCode(SIGINT), "") << "one wish may come as two signals";
}

TEST(RunSignals, OneThatComesTwiceDoesNotCutOffTheEnd) {
  const auto end_in_order = [] {
    {
      const RunSignals signals({.announces = false, .second_ends = false});
      raise(SIGTERM);
    }
    raise(SIGTERM);
    std::_Exit(7);
  };
  EXPECT_EXIT(end_in_order(), testing::ExitedWithCode(7), "");
}

TEST(RunSignals, HeldOnesArriveWhenThereIsSomebodyToTakeThem) {
  const auto held = [] {
    hold_signals();
    raise(SIGTERM);
    const RunSignals signals({.announces = false});
    _exit(signals.stop_signal());
  };
  EXPECT_EXIT(held(), testing::ExitedWithCode(SIGTERM), "");
}

}  // namespace
}  // namespace rannc::tools
