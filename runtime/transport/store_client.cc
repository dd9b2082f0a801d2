// Sends requests to the store, each with a time limit.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/transport/internal/store.h"
#include "runtime/transport/internal/store_wire.h"

namespace rannc::runtime {

namespace {

constexpr std::chrono::milliseconds kRetry{20};

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

int try_connect(const addrinfo& address, std::chrono::milliseconds limit) {
  const int made = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  int reason = connect(made, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (reason == EINPROGRESS) {
    pollfd ready{made, POLLOUT, 0};
    socklen_t size = sizeof(reason);
    reason = ETIMEDOUT;
    if (poll(&ready, 1, static_cast<int>(limit.count())) == 1) getsockopt(made, SOL_SOCKET, SO_ERROR, &reason, &size);
  }
  if (reason == 0) return made;
  close(made);
  errno = reason;
  return -1;
}

/// Retries until `timeout` has passed, because worker 0 may start later.
Result<int> connect_to(const std::string& host, uint16_t port, std::chrono::milliseconds timeout) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  RunningClock clock;
  std::string why;
  do {
    addrinfo* found = nullptr;
    const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
    const std::unique_ptr<addrinfo, FreeAddresses> list(found);
    if (status != 0) why = gai_strerror(status);
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
      const int made = try_connect(*address, timeout - std::min(timeout, clock.now()));
      if (made >= 0) return made;
      why = std::strerror(errno);
    }
    std::this_thread::sleep_for(kRetry);
  } while (clock.now() < timeout);
  return error(fmt::format("worker 0 does not listen there: {}", why));
}

std::string address_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char text[NI_MAXHOST] = {};
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  if (getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return text;
}

StoreWriter request(StoreAsk ask) { return std::move(StoreWriter().number(static_cast<uint64_t>(ask))); }

}  // namespace

StoreClient::StoreClient(int socket, std::chrono::milliseconds timeout)
    : socket_(socket), limit_ms_(timeout.count()), local_address_(address_of(socket)) {
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

StoreClient::~StoreClient() { close(socket_); }

Result<std::unique_ptr<StoreClient>> StoreClient::join(const std::string& host, uint16_t port, uint32_t rank,
                                                       uint32_t workers, std::chrono::milliseconds timeout) {
  RANNC_ASSIGN(const int socket, connect_to(host, port, timeout));
  std::unique_ptr<StoreClient> client(new StoreClient(socket, timeout));
  RANNC_ASSIGN(const std::string ignored,
               client->ask(request(StoreAsk::kJoin).text(kStoreMagic).number(rank).number(workers).frame()));
  return client;
}

/// Waits until the socket is ready. The limit may shrink during the wait.
Result<void> StoreClient::await(short events, RunningClock& clock) {
  for (;;) {
    pollfd ready{socket_, events, 0};
    const int count = poll(&ready, 1, static_cast<int>(RunningClock::kTick.count()));
    if (count > 0) return {};
    if (count < 0 && errno != EINTR) return error(std::strerror(errno));
    if (const auto waited = clock.now(); waited.count() >= limit_ms_) {
      return error(fmt::format(
          "worker 0 has not answered for {} ms: its process is stopped or its machine is unreachable", waited.count()));
    }
  }
}

Result<void> StoreClient::transfer(const std::string& frame, std::string& answer) {
  const Diagnostic gone = error("worker 0 is gone: its process has ended");
  RunningClock clock;
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t size = send(socket_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size > 0) sent += static_cast<size_t>(size);
    if (size < 0 && errno != EAGAIN && errno != EINTR) return gone;
    if (size < 0) RANNC_TRY(await(POLLOUT, clock));
  }
  size_t wanted = 4;
  while (answer.size() < wanted) {
    RANNC_TRY(await(POLLIN, clock));
    char buffer[4096];
    const ssize_t size = recv(socket_, buffer, std::min(sizeof(buffer), wanted - answer.size()), MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return gone;
    if (size > 0) answer.append(buffer, static_cast<size_t>(size));
    if (answer.size() == 4 && wanted == 4) wanted += std::min(store_frame_size(answer), kStoreFrameLimit);
  }
  return {};
}

Result<std::string> StoreClient::ask(std::string frame) {
  const std::lock_guard lock(mutex_);
  if (lost_) return *lost_;
  std::string answer;
  if (const Result<void> done = transfer(frame, answer); !done.ok()) {
    lost_ = done.diagnostic();
    return *lost_;
  }
  StoreReader reader(std::string_view(answer).substr(4));
  if (reader.number() == static_cast<uint64_t>(StoreAnswer::kRefused)) return error(reader.text());
  return answer.substr(4 + 8);
}

Result<std::optional<std::string>> StoreClient::get(const std::string& key) {
  RANNC_ASSIGN(const std::string answer, ask(request(StoreAsk::kGet).text(key).frame()));
  StoreReader reader(answer);
  const bool there = reader.number() != 0;
  return there ? std::optional(reader.text()) : std::nullopt;
}

Result<void> StoreClient::set(const std::string& key, const std::string& value) {
  RANNC_TRY(ask(request(StoreAsk::kSet).text(key).text(value).frame()));
  return {};
}

Result<int64_t> StoreClient::add(const std::string& key, int64_t value) {
  RANNC_ASSIGN(const std::string answer,
               ask(request(StoreAsk::kAdd).text(key).number(static_cast<uint64_t>(value)).frame()));
  return static_cast<int64_t>(StoreReader(answer).number());
}

Result<RunState> StoreClient::beat(const BusyWorker& own) {
  RANNC_ASSIGN(const std::string answer,
               ask(request(StoreAsk::kBeat).text(own.work).number(static_cast<uint64_t>(own.idle.count())).frame()));
  StoreReader reader(answer);
  RunState state;
  state.failure = reader.text();
  state.present = reader.number();
  state.missing = reader.text();
  state.silent_rank = reader.number();
  state.silence = std::chrono::milliseconds(reader.number());
  state.busy.rank = reader.number();
  state.busy.idle = std::chrono::milliseconds(reader.number());
  state.busy.work = reader.text();
  return state;
}

Result<std::string> StoreClient::fail(const std::string& reason) {
  RANNC_ASSIGN(const std::string answer, ask(request(StoreAsk::kFail).text(reason).frame()));
  return StoreReader(answer).text();
}

void StoreClient::leave() {
  const std::lock_guard lock(mutex_);
  const std::string frame = request(StoreAsk::kLeave).frame();
  if (!lost_) static_cast<void>(send(socket_, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void StoreClient::hurry(std::chrono::milliseconds limit) { limit_ms_ = limit.count(); }

}  // namespace rannc::runtime
