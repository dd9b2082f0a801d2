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

// Time for another process to write its name.
constexpr std::chrono::milliseconds kPatience{300}, kPoll{10};
constexpr size_t kMostBytes = 4096;

std::string content_for(std::string_view program) {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  const passwd* const user = ::getpwuid(::getuid());
  return fmt::format("{} of user {}, process {} on host {}, started {:%Y-%m-%d %H:%M:%S} UTC\n", program,
                     user != nullptr ? user->pw_name : std::to_string(::getuid()), ::getpid(), host.data(),
                     fmt::gmtime(std::time(nullptr)));
}

/// Whether this open file is the one at the path: the owner of a lock removes it.
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

/// The process that has the lock; empty while it writes its name.
std::string read_content(int descriptor) {
  std::string content(kMostBytes, '\0');
  const ssize_t size = ::pread(descriptor, content.data(), content.size(), 0);
  content.resize(size > 0 ? static_cast<size_t>(size) : 0);
  struct stat status {};
  if (content.empty() || ::fstat(descriptor, &status) != 0) return {};
  return fmt::format("{} ({} s ago)", content.substr(0, content.find('\n')),
                     std::max<int64_t>(0, std::time(nullptr) - status.st_mtime));
}

Diagnostic unwritable(const std::string& output, const std::string& file, int reason) {
  const std::string name = std::filesystem::path(file).filename();
  return error({output, 0, 0, {}}, fmt::format("cannot be written: {} (at {})", std::strerror(reason), name));
}

}  // namespace

Result<OutputLock> OutputLock::take(const std::string& file, const std::string& output, std::string_view program) {
  const auto deadline = Clock::now() + kPatience;
  std::string other;
  while (other.empty() && Clock::now() < deadline) {
    OutputLock lock(file, ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666));
    if (!lock.file_.valid()) return unwritable(output, file, errno);
    if (::flock(lock.file_.get(), LOCK_EX | LOCK_NB) == 0) {
      if (!is_at(lock.file_.get(), file)) continue;  // its owner has just removed it
      if (!write_content(lock.file_.get(), content_for(program))) return unwritable(output, file, errno);
      return lock;
    }
    if (errno != EWOULDBLOCK) return OutputLock();  // no `flock` here: the file goes with `lock`
    other = read_content(lock.file_.get());
    lock.file_ = {};  // the lock belongs to the other
    if (other.empty()) std::this_thread::sleep_for(kPoll);
  }
  if (other.empty()) other = "its name is not known";
  return error({output, 0, 0, {}},
               fmt::format("another run writes to it: {}; wait for its end, or give another -o", printable(other)));
}

Result<OutputLock> OutputLock::take_beside(const std::string& output, std::string_view program) {
  if (is_stream(output)) return OutputLock();
  std::error_code failed;
  const std::filesystem::path place = std::filesystem::weakly_canonical(output, failed);
  return take((failed ? output : place.string()) + ".lock", output, program);
}

OutputLock& OutputLock::operator=(OutputLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

OutputLock::~OutputLock() {
  if (file_.valid() && is_at(file_.get(), path_)) ::unlink(path_.c_str());
}

}  // namespace rannc
