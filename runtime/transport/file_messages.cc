#include "runtime/transport/internal/file_messages.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "runtime/execute/running_clock.h"

namespace rannc::runtime {

namespace {

constexpr int kBacklog = 4096;  // connections that wait to be accepted: one per worker of the machine

struct AbstractAddress {
  explicit AbstractAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    const size_t count = std::min(name.size(), sizeof(address.sun_path) - 1);
    std::memcpy(address.sun_path + 1, name.data(), count);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t size = 0;
};

bool await_input(const OwnedFile& socket, const GoesOn& goes_on) {
  pollfd ready{socket.get(), POLLIN, 0};
  while (poll(&ready, 1, static_cast<int>(RunningClock::kTick.count())) <= 0) {
    if (!goes_on()) return false;
  }
  return true;
}

/// A message of one part, with room for one file. Points to its own parts.
class MessageWithFile {
 public:
  MessageWithFile(char* bytes, size_t size) : part_{bytes, size} {
    message_.msg_iov = &part_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_;
    message_.msg_controllen = sizeof(control_);
  }
  MessageWithFile(const MessageWithFile&) = delete;
  MessageWithFile& operator=(const MessageWithFile&) = delete;
  msghdr* get() { return &message_; }

 private:
  iovec part_;
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
  msghdr message_{};
};

}  // namespace

Result<OwnedFile> listen_at(const std::string& address) {
  OwnedFile made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const AbstractAddress place(address);
  if (!made.valid() || bind(made.get(), place.get(), place.size) != 0 || listen(made.get(), kBacklog) != 0) {
    return error(fmt::format("cannot open a local socket: {}", std::strerror(errno)));
  }
  return made;
}

OwnedFile connect_to_address(const std::string& address) {
  OwnedFile made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress place(address);
  if (!made.valid() || connect(made.get(), place.get(), place.size) != 0) return {};
  return made;
}

std::vector<size_t> await_any(const std::vector<OwnedFile>& sockets) {
  std::vector<pollfd> waiting;
  for (const OwnedFile& socket : sockets) waiting.push_back({socket.get(), POLLIN, 0});
  poll(waiting.data(), waiting.size(), static_cast<int>(RunningClock::kTick.count()));
  std::vector<size_t> ready;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].revents != 0) ready.push_back(i);
  }
  return ready;
}

OwnedFile accept_from(const OwnedFile& listener) {
  return OwnedFile(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

bool send_with_file(const OwnedFile& socket, const std::string& text, int file) {
  MessageWithFile message(const_cast<char*>(text.data()), text.size());
  cmsghdr* const head = CMSG_FIRSTHDR(message.get());
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &file, sizeof(file));
  return sendmsg(socket.get(), message.get(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

std::pair<std::string, OwnedFile> receive_with_file(const OwnedFile& socket, size_t limit, const GoesOn& goes_on) {
  std::string text(limit, '\0');
  MessageWithFile message(text.data(), text.size());
  if (!await_input(socket, goes_on)) return {};
  const ssize_t size = recvmsg(socket.get(), message.get(), MSG_CMSG_CLOEXEC);
  if (size <= 0) return {};
  text.resize(static_cast<size_t>(size));
  const cmsghdr* const head = CMSG_FIRSTHDR(message.get());
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return {};
  int file = -1;
  std::memcpy(&file, CMSG_DATA(head), sizeof(file));
  return {std::move(text), OwnedFile(file)};
}

}  // namespace rannc::runtime
