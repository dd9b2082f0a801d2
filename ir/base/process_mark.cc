#include "ir/base/process_mark.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <functional>

#include "ir/base/replacement.h"

namespace rannc {

namespace fs = std::filesystem;

namespace {

std::string content_of(const std::string& path) {
  const Result<std::string> content = read_file(path);
  return content.ok() ? *content : std::string();
}

const std::string& system_mark() {
  static const std::string kMark = [] {
    std::error_code failed;
    const std::string place = fs::read_symlink("/proc/self/ns/pid", failed).string();
    const size_t hash = std::hash<std::string>()(content_of("/proc/sys/kernel/random/boot_id") + place);
    return fmt::format("{:08x}", static_cast<uint32_t>(hash));
  }();
  return kMark;
}

/// Start time of a process by /proc/<process>/stat (`man 5 proc`); empty if it cannot be read.
std::string start_of(pid_t process) {
  constexpr int kFieldsBefore = 19;  // after the name in parentheses
  const std::string line = content_of(fmt::format("/proc/{}/stat", process));
  size_t at = line.rfind(')');
  for (int i = 0; i <= kFieldsBefore && at != std::string::npos; ++i) at = line.find(' ', at + 1);
  return at == std::string::npos ? "" : line.substr(at + 1, line.find(' ', at + 1) - at - 1);
}

}  // namespace

std::string process_mark() {
  const std::string start = start_of(getpid());
  return fmt::format("{}-{}-{}", system_mark(), getpid(), start.empty() ? "0" : start);
}

ProcessState state_of(std::string_view mark) {
  const std::string prefix = system_mark() + "-";
  if (!mark.starts_with(prefix)) return ProcessState::kUnknown;
  const char* const end = mark.data() + mark.size();
  pid_t process = 0;
  uint64_t start = 0;
  const auto [dash, bad] = std::from_chars(mark.data() + prefix.size(), end, process);
  if (bad != std::errc() || process <= 0 || dash == end || *dash != '-') return ProcessState::kUnknown;
  const auto [rest, worse] = std::from_chars(dash + 1, end, start);
  if (worse != std::errc() || rest != end) return ProcessState::kUnknown;
  const std::string own = start_of(process);
  if (!own.empty()) return own == std::string_view(dash + 1, end) ? ProcessState::kRuns : ProcessState::kGone;
  const bool exists = kill(process, 0) == 0 || errno == EPERM;  // but /proc does not show it
  return exists ? ProcessState::kUnknown : ProcessState::kGone;
}

}  // namespace rannc
