// rannc-run that sends itself signals, or hangs, after given actions.
//
// Each file in the folder RANNC_TEST_SIGNALS stands for one event. Its name is `<device> <step> <action>`, such as
// `1 7 RA0.1<d0`, and its content one of the following. The file is removed when the event happens.
//   <number>           sends this process the signal
//   hang               the thread of the device never returns
//   slow MS            this and all later actions take that much longer
//   hang writing TEXT  writes to files never return whose path contains TEXT
//   hang reading TEXT  reads of mapped files never return whose path contains TEXT
// The name `start <device>` stands for the start of a worker, where `hang` is possible.
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/execute/executor.h"
#include "tools/common/driver.h"
#include "tools/run/run_bundle.h"

namespace {

using namespace rannc;

[[noreturn]] void hang() {
  while (true) pause();
}

/// Of the paths whose writes hang; null: none does. `write` below may run on any thread.
std::atomic<const std::string*> g_unwritable{nullptr};

std::atomic<int> g_delay_ms{0};

void hang_reads_of(const std::string& text) {
  struct sigaction action = {};
  action.sa_handler = [](int) { hang(); };
  sigaction(SIGSEGV, &action, nullptr);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(text) == std::string::npos) continue;
    char* rest = nullptr;
    const unsigned long first = std::strtoul(line.c_str(), &rest, 16), last = std::strtoul(rest + 1, nullptr, 16);
    mprotect(reinterpret_cast<void*>(first), last - first, PROT_NONE);
  }
}

void perform(const std::string& event) {
  constexpr std::string_view kWriting = "hang writing ", kReading = "hang reading ", kSlow = "slow ";
  if (event == "hang") hang();
  if (event.starts_with(kSlow)) {
    g_delay_ms = std::atoi(event.c_str() + kSlow.size());
  } else if (event.starts_with(kWriting)) {
    g_unwritable = new std::string(event.substr(kWriting.size()));
  } else if (event.starts_with(kReading)) {
    hang_reads_of(event.substr(kReading.size()));
  } else {
    kill(getpid(), std::atoi(event.c_str()));
  }
}

class Events final : public runtime::Observer {
 public:
  explicit Events(std::string folder) : folder_(std::move(folder)) {}

  void finished(const runtime::ActionRecord& record) override {
    perform_once(std::to_string(record.device.index()) + " " + std::to_string(record.step) + " " +
                 ir::to_string(record.action));
    std::this_thread::sleep_for(std::chrono::milliseconds(g_delay_ms));
  }
  void perform_once(const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    std::string event;
    if (std::getline(std::ifstream(path), event) && ::unlink(path.c_str()) == 0) perform(event);
  }

 private:
  std::string folder_;
};

}  // namespace

/// Replaces that of the C library.
extern "C" ssize_t write(int file, const void* bytes, size_t size) {
  if (const std::string* const unwritable = g_unwritable) {
    char path[PATH_MAX] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    if (readlink(link.c_str(), path, sizeof(path) - 1) > 0 && std::string(path).find(*unwritable) != std::string::npos)
      hang();
  }
  return syscall(SYS_write, file, bytes, size);
}

namespace {

int run(int argc, char** argv) {
  const char* const folder = std::getenv("RANNC_TEST_SIGNALS");
  Events events(folder != nullptr ? folder : "");
  if (const char* const rank = std::getenv("RANK")) events.perform_once(std::string("start ") + rank);
  CLI::App app("rannc-run with signals", "rannc-run");
  tools::RunFlags flags;
  app.add_option("bundle", flags.bundle)->required();
  tools::add_run_flags(app, flags);
  const tools::RunProgram program{
      .name = "rannc-run", .arguments = {argv + 1, argv + argc}, .main = run, .observer = &events};
  return tools::run_tool(app, argc, argv, [&] { return tools::run_bundle(flags, program); });
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
