#include "ir/base/output_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>
#include <utility>

#include "ir/base/printable.h"
#include "ir/base/replacement.h"

namespace rannc {

namespace {

using Clock = std::chrono::steady_clock;

// Time for another process to write its name, or to see that it may not have the lock.
constexpr std::chrono::milliseconds kPatience{300}, kPoll{10};
constexpr size_t kMostBytes = 4096;

/// Two lines: the run, and the process for people.
std::string content_for(const OutputLock::Owner& owner) {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  const passwd* const user = ::getpwuid(::getuid());
  return fmt::format("{}\n{} of user {}, process {} on host {}, started {:%Y-%m-%d %H:%M:%S} UTC\n", owner.run,
                     owner.program, user != nullptr ? user->pw_name : std::to_string(::getuid()), ::getpid(),
                     host.data(), fmt::gmtime(std::time(nullptr)));
}

/// Whether this open file is the one at the path: the last owner of a lock removes it.
bool is_at(int descriptor, const std::string& path) {
  struct stat open {
  }, there{};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &there) == 0 && open.st_ino == there.st_ino &&
         open.st_dev == there.st_dev;
}

bool write_content(int descriptor, const std::string& content) {
  return ::ftruncate(descriptor, 0) == 0 &&
         ::pwrite(descriptor, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
}

std::pair<std::string, std::string> read_content(int descriptor) {
  std::string content(kMostBytes, '\0');
  const ssize_t size = ::pread(descriptor, content.data(), content.size(), 0);
  content.resize(size > 0 ? static_cast<size_t>(size) : 0);
  const size_t end = content.find('\n');
  if (end == std::string::npos) return {};
  return {content.substr(0, end), content.substr(end + 1, content.find('\n', end + 1) - end - 1)};
}

std::string age_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return {};
  return fmt::format(" ({} s ago)", std::max<int64_t>(0, std::time(nullptr) - status.st_mtime));
}

Diagnostic unwritable(const std::string& output, const std::string& file, int reason) {
  const std::string name = std::filesystem::path(file).filename();
  return error({output, 0, 0, {}}, fmt::format("cannot be written: {} (at {})", std::strerror(reason), name));
}

enum class Attempt { kTaken, kRefused, kAgain, kUnsupported, kUnwritable };

/// `other` receives the name of the process that has it.
Attempt try_once(int descriptor, const std::string& file, const OutputLock::Owner& owner, std::string& other) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {  // nobody has it
    if (!is_at(descriptor, file)) return Attempt::kAgain;
    if (!write_content(descriptor, content_for(owner))) return Attempt::kUnwritable;
    return ::flock(descriptor, LOCK_SH | LOCK_NB) == 0 ? Attempt::kTaken : Attempt::kAgain;
  }
  if (errno != EWOULDBLOCK) return Attempt::kUnsupported;
  if (::flock(descriptor, LOCK_SH | LOCK_NB) != 0 || !is_at(descriptor, file)) return Attempt::kAgain;
  const auto [run, process] = read_content(descriptor);
  if (run == owner.run) return Attempt::kTaken;
  other = process + age_of(descriptor);
  return Attempt::kRefused;
}

}  // namespace

Result<OutputLock> OutputLock::take(const std::string& file, const std::string& output, const Owner& owner) {
  const auto deadline = Clock::now() + kPatience;
  std::string other = "its name is not known";
  do {
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666);
    if (descriptor < 0) return unwritable(output, file, errno);
    OutputLock lock(file, descriptor);
    const Attempt attempt = try_once(descriptor, file, owner, other);
    if (attempt == Attempt::kTaken) return lock;
    const int reason = errno;
    if (attempt == Attempt::kUnsupported || attempt == Attempt::kUnwritable) ::unlink(file.c_str());
    ::close(std::exchange(lock.descriptor_, -1));
    if (attempt == Attempt::kUnsupported) return OutputLock();
    if (attempt == Attempt::kUnwritable) return unwritable(output, file, reason);
    // One that only looked who has it is gone at the next attempt.
    std::this_thread::sleep_for(kPoll);
  } while (Clock::now() < deadline);
  return error({output, 0, 0, {}},
               fmt::format("another run writes to it: {}; wait for its end, or give another -o", printable(other)));
}

Result<OutputLock> OutputLock::take_beside(const std::string& output, const Owner& owner) {
  if (is_stream(output)) return OutputLock();
  std::error_code failed;
  const std::filesystem::path place = std::filesystem::weakly_canonical(output, failed);
  return take((failed ? output : place.string()) + ".lock", output, owner);
}

OutputLock::OutputLock(OutputLock&& other) noexcept
    : file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputLock& OutputLock::operator=(OutputLock&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

OutputLock::~OutputLock() {
  if (descriptor_ < 0) return;
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 && is_at(descriptor_, file_)) ::unlink(file_.c_str());
  ::close(descriptor_);
}

}  // namespace rannc
