#include "tools/common/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace rannc::tools {

namespace {

struct Stream {
  int descriptor;
  int failure = 0;  // errno of the first
};
Stream g_output{STDOUT_FILENO}, g_errors{STDERR_FILENO};

/// Reports everything as written, so that only `failure` tells.
ssize_t write_or_fail(void* cookie, const char* data, size_t size) {
  Stream& stream = *static_cast<Stream*>(cookie);
  for (size_t done = 0; done < size && stream.failure == 0;) {
    const ssize_t count = ::write(stream.descriptor, data + done, size - done);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {
      pollfd ready{stream.descriptor, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      stream.failure = errno;
    }
  }
  return static_cast<ssize_t>(size);
}

FILE* opened(Stream& stream, int buffering) {
  FILE* const file =
      ::fopencookie(&stream, "w", {.read = nullptr, .write = write_or_fail, .seek = nullptr, .close = nullptr});
  RANNC_CHECK(file != nullptr && std::setvbuf(file, nullptr, buffering, BUFSIZ) == 0) << "memory for a stream";
  return file;
}

/// Opens the descriptor, if it is closed, so that using it fails or does nothing.
void reserve(int descriptor, int mode) {
  if (::fcntl(descriptor, F_GETFD) >= 0) return;
  const int null = ::open("/dev/null", mode);
  if (null >= 0 && null != descriptor) {
    ::dup2(null, descriptor);
    ::close(null);
  }
}

}  // namespace

void open_standard_streams() {
  static const bool kOpened = [] {
    reserve(STDIN_FILENO, O_RDONLY);
    reserve(STDOUT_FILENO, O_RDONLY);  // printed results that nobody receives are an error
    reserve(STDERR_FILENO, O_WRONLY);
    ::signal(SIGXFSZ, SIG_IGN);
    std::fflush(nullptr);
    stdout = opened(g_output, ::isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF);
    stderr = opened(g_errors, _IONBF);
    return true;
  }();
  static_cast<void>(kOpened);
  g_output.failure = g_errors.failure = 0;
}

Result<void> check_standard_output() {
  std::fflush(stdout);
  if (g_output.failure == 0) return {};
  return error({"standard output", 0, 0, {}}, fmt::format("cannot be written: {}", std::strerror(g_output.failure)));
}

}  // namespace rannc::tools
