// Texts without the bytes that stand for the other messages.
#include "tools/common/report_pipe.h"

#include <poll.h>
#include <unistd.h>

namespace rannc::tools {

namespace {

constexpr size_t kPipeHolds = 60'000;
constexpr char kLifeSign = '\0', kHangs = '\1', kEnds = '\2';

void send(int pipe, const std::string& bytes) {
  [[maybe_unused]] const ssize_t written = write(pipe, bytes.data(), bytes.size());
}

// A launcher that is suspended does not read, and writing to a full pipe would wait for it.
void send_if_possible(int pipe, char sign) {
  pollfd ready{pipe, POLLOUT, 0};
  if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) send(pipe, {sign});
}

}  // namespace

void send_life_sign(int pipe) { send_if_possible(pipe, kLifeSign); }

void send_last_sign(int pipe) { send_if_possible(pipe, kEnds); }

void report_failure(int pipe, const std::string& reason) { send(pipe, reason.substr(0, kPipeHolds)); }

void report_hang(int pipe, const std::string& reason) { send(pipe, kHangs + reason.substr(0, kPipeHolds)); }

bool WorkerReports::read(int pipe) {
  char buffer[4096];
  bool any = false;
  for (ssize_t size = 0; (size = ::read(pipe, buffer, sizeof(buffer))) > 0; any = true) {
    for (const char byte : std::string_view(buffer, static_cast<size_t>(size))) {
      if (byte == kHangs) {
        hangs_ = true;
      } else if (byte == kEnds) {
        ends_ = true;
      } else if (byte != kLifeSign) {
        reason_ += byte;
      }
    }
  }
  return any;
}

}  // namespace rannc::tools
