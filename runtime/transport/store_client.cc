// Sends requests to the store, each with a time limit.
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/transport/internal/store.h"
#include "runtime/transport/internal/store_wire.h"

namespace rannc::runtime {

namespace {

constexpr std::chrono::milliseconds kRetry{20};

OwnedFile try_connect(const Address& address, std::chrono::milliseconds limit) {
  OwnedFile made(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.valid()) return made;
  int reason = connect(made.get(), address.get(), address.size) == 0 ? 0 : errno;
  if (reason == EINPROGRESS) {
    pollfd ready{made.get(), POLLOUT, 0};
    socklen_t size = sizeof(reason);
    reason = ETIMEDOUT;
    if (poll(&ready, 1, static_cast<int>(limit.count())) == 1)
      getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &reason, &size);
  }
  if (reason != 0) made = {};
  errno = reason;
  return made;
}

/// Retries until the time-out has passed, because worker 0 may start later.
Result<OwnedFile> connect_to(const Rendezvous& where, uint16_t port, RunningClock& clock) {
  const auto left = [&] { return where.timeout - std::min(where.timeout, clock.now()); };
  std::string why;
  do {
    const auto addresses = resolve(where.host, port, left());
    if (!addresses.ok()) why = addresses.diagnostic().message;
    for (const Address& address : addresses.ok() ? *addresses : std::vector<Address>()) {
      RANNC_TRY(check_reach(where, address));
      OwnedFile made = try_connect(address, left());
      if (made.valid()) return made;
      why = std::strerror(errno);
    }
    std::this_thread::sleep_for(kRetry);
  } while (clock.now() < where.timeout);
  return error(fmt::format("worker 0 does not listen there: {}", why));
}

StoreWriter request(StoreRequest exchange) { return std::move(StoreWriter().number(static_cast<uint64_t>(exchange))); }

Result<void> check(const StoreReader& answer) {
  if (answer.complete()) return {};
  return error("the process that listens there does not answer as worker 0 of this version of rannc does");
}

}  // namespace

Result<void> check_reach(const Rendezvous& where, const Address& address) {
  if (address.is_loopback() || where.insecure || !where.secret.empty()) return {};
  return error(
      fmt::format("other machines can reach {}, and the workers have no secret: set RANNC_SECRET to the same random "
                  "text for all of them, or give --insecure if everyone who reaches that port is trusted",
                  address.str()));
}

StoreClient::StoreClient(OwnedFile socket, std::chrono::milliseconds timeout)
    : socket_(std::move(socket)), limit_ms_(timeout.count()), local_address_(address_of(socket_.get()).host()) {
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/// Retries if the server closes the connection: it does so with the oldest ones if strangers open too many.
Result<std::unique_ptr<StoreClient>> StoreClient::join(const Rendezvous& where, uint16_t port) {
  RunningClock clock;
  for (;; std::this_thread::sleep_for(kRetry)) {
    RANNC_ASSIGN(OwnedFile socket, connect_to(where, port, clock));
    const auto left = where.timeout - std::min(where.timeout, clock.now());
    std::unique_ptr<StoreClient> client(new StoreClient(std::move(socket), left));
    const Result<void> proved = client->prove(where);
    client->limit_ms_ = where.timeout.count();
    if (proved.ok()) return client;
    if (!client->closed_) return proved.diagnostic();
    if (clock.now() >= where.timeout)
      return error(
          "the process that listens there closes the connection: it has ended, or is not worker 0 of this run");
  }
}

Result<void> StoreClient::prove(const Rendezvous& where) {
  StoreHandshake handshake{.rank = where.rank, .workers = where.workers};
  RANNC_ASSIGN(handshake.worker_nonce, random_hex(kStoreNonceSize / 2));
  RANNC_ASSIGN(const std::string greeting,
               exchange(request(StoreRequest::kHello).text(kStoreMagic).text(handshake.worker_nonce).frame()));
  StoreReader reader(greeting);
  handshake.server_nonce = reader.text();
  RANNC_TRY(check(reader));
  RANNC_ASSIGN(const std::string answer, exchange(request(StoreRequest::kProve)
                                                      .number(where.rank)
                                                      .number(where.workers)
                                                      .text(handshake.proof(where.secret, "worker"))
                                                      .frame()));
  StoreReader proof(answer);
  if (equal_secrets(proof.text(), handshake.proof(where.secret, "server"))) return check(proof);
  return error(
      fmt::format("the process that listens there does not have the secret of worker {} (RANNC_SECRET)", where.rank));
}

/// Waits until the socket is ready. The limit may shrink during the wait.
Result<void> StoreClient::await(short events, RunningClock& clock) {
  for (;;) {
    pollfd ready{socket_.get(), events, 0};
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
  const auto lost = [&] { return closed_ = true, gone; };
  RunningClock clock;
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t size = send(socket_.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size > 0) sent += static_cast<size_t>(size);
    if (size < 0 && errno != EAGAIN && errno != EINTR) return lost();
    if (size < 0) RANNC_TRY(await(POLLOUT, clock));
  }
  size_t wanted = 4;
  while (answer.size() < wanted) {
    RANNC_TRY(await(POLLIN, clock));
    char buffer[4096];
    const ssize_t size = recv(socket_.get(), buffer, std::min(sizeof(buffer), wanted - answer.size()), MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return lost();
    if (size > 0) answer.append(buffer, static_cast<size_t>(size));
    if (answer.size() != 4 || wanted != 4) continue;
    wanted += store_frame_size(answer);
    if (wanted < 4 + kStoreFrameLeast || wanted > 4 + kStoreFrameLimit) return check(StoreReader(answer));
  }
  return {};
}

Result<std::string> StoreClient::exchange(std::string frame) {
  const std::lock_guard lock(mutex_);
  if (lost_) return *lost_;
  if (frame.size() > 4 + kStoreFrameLimit)
    return error(fmt::format("a request of {} bytes exceeds the limit of {}", frame.size() - 4, kStoreFrameLimit));
  std::string answer;
  if (const Result<void> done = transfer(frame, answer); !done.ok()) {
    lost_ = done.diagnostic();
    return *lost_;
  }
  StoreReader reader(std::string_view(answer).substr(4));
  if (reader.number() == static_cast<uint64_t>(StoreAnswer::kDone)) return answer.substr(4 + 8);
  const std::string why = reader.text();
  return error(why.empty() ? "worker 0 refused without a reason" : why);
}

Result<std::optional<std::string>> StoreClient::get(const std::string& key) {
  RANNC_ASSIGN(const std::string answer, exchange(request(StoreRequest::kGet).text(key).frame()));
  StoreReader reader(answer);
  const bool there = reader.number() != 0;
  std::string value = reader.text();
  RANNC_TRY(check(reader));
  return there ? std::optional(std::move(value)) : std::nullopt;
}

Result<void> StoreClient::set(const std::string& key, const std::string& value) {
  RANNC_TRY(exchange(request(StoreRequest::kSet).text(key).text(value).frame()));
  return {};
}

Result<int64_t> StoreClient::add(const std::string& key, int64_t value) {
  RANNC_ASSIGN(const std::string answer,
               exchange(request(StoreRequest::kAdd).text(key).number(static_cast<uint64_t>(value)).frame()));
  StoreReader reader(answer);
  const auto sum = static_cast<int64_t>(reader.number());
  RANNC_TRY(check(reader));
  return sum;
}

Result<RunState> StoreClient::beat(const BusyWorker& own) {
  RANNC_ASSIGN(
      const std::string answer,
      exchange(request(StoreRequest::kBeat).text(own.work).number(static_cast<uint64_t>(own.idle.count())).frame()));
  StoreReader reader(answer);
  RunState state;
  state.failure = reader.text();
  state.present = reader.number();
  state.missing = reader.text();
  state.refused = reader.text();
  state.silent_rank = reader.number();
  state.silence = reader.time();
  state.busy.rank = reader.number();
  state.busy.idle = reader.time();
  state.busy.work = reader.text();
  RANNC_TRY(check(reader));
  return state;
}

Result<std::string> StoreClient::fail(const std::string& reason) {
  RANNC_ASSIGN(const std::string answer,
               exchange(request(StoreRequest::kFail).text(reason.substr(0, kStoreReasonLimit)).frame()));
  StoreReader reader(answer);
  std::string first = reader.text();
  RANNC_TRY(check(reader));
  return first;
}

void StoreClient::leave() {
  const std::lock_guard lock(mutex_);
  const std::string frame = request(StoreRequest::kLeave).frame();
  if (!lost_) static_cast<void>(send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void StoreClient::hurry(std::chrono::milliseconds limit) { limit_ms_ = limit.count(); }

}  // namespace rannc::runtime
