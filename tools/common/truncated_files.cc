#include "tools/common/truncated_files.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "ir/base/mapped_file.h"

namespace rannc::tools {

namespace {

// A signal handler can access only globals.
std::string g_kept;
std::atomic<const char*> g_before{""};
std::atomic<int> g_descriptor{STDERR_FILENO};

void write_text(const char* text) {
  [[maybe_unused]] const ssize_t written = write(g_descriptor, text, std::strlen(text));
}

// The handler is reset: another kind of fault repeats and ends the process.
void on_bus_error(int, siginfo_t* info, void*) {
  const char* const path = mapped_file_at(info->si_addr);
  if (path == nullptr) return;
  const char* const before = g_before;
  write_text(before);
  write_text(path);
  write_text(before[0] == '\0' ? ": error: was truncated while it was read\n" : ": was truncated while it was read");
  _exit(1);
}

}  // namespace

void report_truncated_files(int descriptor, const std::string& before) {
  g_kept = before;
  g_before = g_kept.c_str();
  g_descriptor = descriptor;
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace rannc::tools
