#include "ir/base/process_mark.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

namespace rannc {

namespace fs = std::filesystem;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
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

/// The start time in a line of /proc/<process>/stat (`man 5 proc`).
std::string_view start_in(std::string_view line) {
  constexpr int kFieldsBefore = 19;  // after the name in parentheses
  size_t at = line.rfind(')');
  for (int i = 0; i <= kFieldsBefore && at != std::string_view::npos; ++i) at = line.find(' ', at + 1);
  return at == std::string_view::npos ? "" : line.substr(at + 1, line.find(' ', at + 1) - at - 1);
}

}  // namespace

std::string process_mark(pid_t process) {
  const std::string line = content_of(fmt::format("/proc/{}/stat", process));
  const std::string_view start = start_in(line);
  return start.empty() ? "" : fmt::format("{}-{}-{}", system_mark(), process, start);
}

ProcessState state_of(std::string_view mark) {
  const std::string& system = system_mark();
  if (!mark.starts_with(system) || mark.size() <= system.size() || mark[system.size()] != '-')
    return ProcessState::kUnknown;
  const std::string_view number = mark.substr(system.size() + 1);
  pid_t process = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), process);
  if (read.ec != std::errc() || process <= 0) return ProcessState::kUnknown;
  return process_mark(process) == mark ? ProcessState::kRuns : ProcessState::kGone;
}

}  // namespace rannc
