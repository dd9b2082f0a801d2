// Texts without the bytes of the other two.
#include "tools/common/report_pipe.h"

#include <poll.h>
#include <unistd.h>

namespace rannc::tools {

namespace {

constexpr size_t kPipeHolds = 60'000;
constexpr char kLifeSign = '\0', kHangs = '\1';

void send(int pipe, const std::string& bytes) {
  [[maybe_unused]] const ssize_t written = write(pipe, bytes.data(), bytes.size());
}

}  // namespace

// A launcher that is suspended does not read, and writing to a full pipe would wait for it.
void send_life_sign(int pipe) {
  pollfd ready{pipe, POLLOUT, 0};
  if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) send(pipe, {kLifeSign});
}

void report_failure(int pipe, const std::string& reason) { send(pipe, reason.substr(0, kPipeHolds)); }

void report_hang(int pipe, const std::string& reason) { send(pipe, kHangs + reason.substr(0, kPipeHolds)); }

bool WorkerReports::read(int pipe) {
  char buffer[4096];
  bool any = false;
  for (ssize_t size = 0; (size = ::read(pipe, buffer, sizeof(buffer))) > 0; any = true) {
    for (const char byte : std::string_view(buffer, static_cast<size_t>(size))) {
      if (byte == kHangs) {
        hangs_ = true;
      } else if (byte != kLifeSign) {
        reason_ += byte;
      }
    }
  }
  return any;
}

}  // namespace rannc::tools
