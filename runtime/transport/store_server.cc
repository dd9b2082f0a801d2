// Serves the store with one thread that polls the listening socket and the workers' connections.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/transport/internal/store.h"
#include "runtime/transport/internal/store_wire.h"

namespace rannc::runtime {

namespace {

constexpr size_t kNamedMissing = 8;

/// One worker's connection.
struct Peer {
  int socket = -1;
  std::string in, out;
  std::optional<uint32_t> rank;  // set when it has joined
  bool left = false, closed = false;
  std::chrono::milliseconds heard{0};
  BusyWorker busy;
};

StoreWriter done() { return std::move(StoreWriter().number(static_cast<uint64_t>(StoreAnswer::kDone))); }

StoreWriter refused(const std::string& why) {
  return std::move(StoreWriter().number(static_cast<uint64_t>(StoreAnswer::kRefused)).text(why));
}

int listening_socket(int family, uint16_t port) {
  const int made = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    auto& six = reinterpret_cast<sockaddr_in6&>(address);
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(port);
    size = sizeof(six);
  } else {
    auto& four = reinterpret_cast<sockaddr_in&>(address);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
  }
  if (bind(made, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(made, SOMAXCONN) == 0) return made;
  const int reason = errno;
  close(made);
  errno = reason;
  return -1;
}

}  // namespace

Result<int> listen_on(uint16_t port) {
  int made = listening_socket(AF_INET6, port);
  if (made < 0 && errno != EADDRINUSE) made = listening_socket(AF_INET, port);  // a machine without IPv6
  if (made < 0) return error(fmt::format("cannot listen on port {}: {}", port, std::strerror(errno)));
  return made;
}

uint16_t port_of(int listening_socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(listening_socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

class StoreServer::Impl {
 public:
  Impl(int listening_socket, uint32_t workers, std::chrono::milliseconds patience)
      : listening_(listening_socket), workers_(workers), patience_(patience), thread_([this] { loop(); }) {}

  ~Impl() {
    stop_ = true;
    shutdown(listening_, SHUT_RDWR);  // wakes the thread
    thread_.join();
    for (const Peer& peer : peers_) close(peer.socket);
    close(listening_);
  }

  void await_others(uint32_t own_rank, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return here_.empty() || (here_.size() == 1 && *here_.begin() == own_rank); });
  }

 private:
  void loop() {
    while (!stop_) {
      std::vector<pollfd> ready{{listening_, POLLIN, 0}};
      for (const Peer& peer : peers_) {
        ready.push_back({peer.socket, static_cast<short>(peer.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
      }
      if (poll(ready.data(), ready.size(), static_cast<int>(RunningClock::kTick.count())) < 0 && errno != EINTR) return;
      now_ = clock_.now();
      size_t index = 1;
      for (Peer& peer : peers_) {
        if (ready[index++].revents != 0) read(peer);
      }
      // Handles disconnected workers first, because they are the reason why others lose their connections.
      for (Peer& peer : peers_) {
        if (peer.closed) serve(peer), depart(peer);
      }
      for (Peer& peer : peers_) {
        serve(peer), write(peer);
        if (peer.closed) depart(peer);
      }
      judge();
      if ((ready[0].revents & POLLIN) != 0) admit();
      peers_.remove_if([](const Peer& peer) {
        if (peer.closed) close(peer.socket);
        return peer.closed;
      });
    }
  }

  void admit() {
    const int socket = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    Peer peer;
    peer.socket = socket;
    peers_.push_back(std::move(peer));
  }

  static void read(Peer& peer) {
    char buffer[4096];
    for (;;) {
      const ssize_t size = recv(peer.socket, buffer, sizeof(buffer), 0);
      if (size > 0) {
        peer.in.append(buffer, static_cast<size_t>(size));
        continue;
      }
      peer.closed = size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
      return;
    }
  }

  static void write(Peer& peer) {
    if (peer.out.empty() || peer.closed) return;
    const ssize_t size = send(peer.socket, peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
    if (size > 0) peer.out.erase(0, static_cast<size_t>(size));
  }

  /// Answers every complete request.
  void serve(Peer& peer) {
    while (peer.in.size() >= 4) {
      const uint32_t size = store_frame_size(peer.in);
      if (size > kStoreFrameLimit) {  // not a rannc worker
        peer.in.clear();
        peer.closed = true;
        return;
      }
      if (peer.in.size() < 4 + size) return;
      StoreReader request(std::string_view(peer.in).substr(4, size));
      peer.heard = now_;
      peer.out += answer(peer, request).frame();
      peer.in.erase(0, 4 + size);
    }
  }

  StoreWriter answer(Peer& peer, StoreReader& request) {
    const auto ask = static_cast<StoreAsk>(request.number());
    if (ask == StoreAsk::kJoin) return join(peer, request);
    if (!peer.rank) return refused("the first request must be a join");
    switch (ask) {
      case StoreAsk::kBeat:
        peer.busy = read_work(*peer.rank, request);
        return beat(peer);
      case StoreAsk::kLeave:
        peer.left = true;
        vacate(*peer.rank);
        return done();
      case StoreAsk::kFail:
        if (failure_.empty()) failure_ = request.text();
        return std::move(done().text(failure_));
      default:
        return table(ask, request);
    }
  }

  StoreWriter table(StoreAsk ask, StoreReader& request) {
    const std::string key = request.text();
    if (ask == StoreAsk::kGet) {
      const auto found = table_.find(key);
      return std::move(done().number(found != table_.end()).text(found != table_.end() ? found->second : ""));
    }
    if (ask == StoreAsk::kSet) {
      table_[key] = request.text();
      return done();
    }
    if (ask != StoreAsk::kAdd) return refused("unknown request");
    const uint64_t sum = (sums_[key] += request.number());
    table_[key] = std::to_string(static_cast<int64_t>(sum));
    return std::move(done().number(sum));
  }

  StoreWriter join(Peer& peer, StoreReader& request) {
    const std::string magic = request.text();
    const uint64_t rank = request.number(), workers = request.number();
    if (!request.ok() || magic != kStoreMagic) return refused("this is a worker of another version of rannc");
    if (workers != workers_) {
      return refused(fmt::format("worker {} expects {} workers, but worker 0 expects {}", rank, workers, workers_));
    }
    if (rank >= workers_)
      return refused(fmt::format("worker {} does not exist in a run of {} workers", rank, workers_));
    const auto own = static_cast<uint32_t>(rank);
    if (!joined_.insert(own).second)
      return refused(fmt::format("another process has already joined as worker {}", rank));
    peer.rank = own;
    const std::lock_guard lock(mutex_);
    here_.insert(own);
    return done();
  }

  static BusyWorker read_work(uint32_t rank, StoreReader& request) {
    BusyWorker busy{.rank = rank};
    busy.work = request.text();
    busy.idle = std::chrono::milliseconds(request.number());
    return busy;
  }

  StoreWriter beat(const Peer& asking) const {
    const Peer* silent = nullptr;
    BusyWorker busy;
    for (const Peer& peer : peers_) {
      if (!peer.rank || peer.left) continue;
      if (silent == nullptr || peer.heard < silent->heard) silent = &peer;
      if (&peer == &asking || peer.busy.work.empty()) continue;
      if (busy.work.empty() || peer.busy.idle > busy.idle) busy = peer.busy;
    }
    return std::move(done()
                         .text(failure_)
                         .number(joined_.size())
                         .text(missing())
                         .number(silent == nullptr ? 0 : *silent->rank)
                         .number(silent == nullptr ? 0 : static_cast<uint64_t>((now_ - silent->heard).count()))
                         .number(busy.rank)
                         .number(static_cast<uint64_t>(busy.idle.count()))
                         .text(busy.work));
  }

  std::string missing() const {
    std::string text;
    size_t named = 0;
    for (uint32_t rank = 0; rank < workers_; ++rank) {
      if (joined_.contains(rank)) continue;
      if (++named > kNamedMissing) return text + fmt::format(" and {} more", workers_ - joined_.size() - kNamedMissing);
      text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
    }
    return text;
  }

  void depart(Peer& peer) {
    if (!peer.rank || std::exchange(peer.left, true)) return;
    fail(fmt::format("worker {} is gone: its process has ended", *peer.rank));
    vacate(*peer.rank);
  }

  void vacate(uint32_t rank) {
    const std::lock_guard lock(mutex_);
    here_.erase(rank);
    changed_.notify_all();
  }

  /// Fails the run for silent workers. All received requests were answered before, so a delay of this thread does not
  /// count as silence.
  void judge() {
    for (const Peer& peer : peers_) {
      if (!peer.rank || peer.left || peer.closed || now_ - peer.heard < patience_) continue;
      fail(fmt::format(
          "worker {} has not been heard from for {} ms: its process is stopped or its machine is unreachable",
          *peer.rank, (now_ - peer.heard).count()));
    }
  }

  void fail(std::string reason) {
    if (failure_.empty()) failure_ = std::move(reason);
  }

  const int listening_;
  const uint32_t workers_;
  const std::chrono::milliseconds patience_;
  std::list<Peer> peers_;
  std::map<std::string, std::string> table_;
  std::map<std::string, uint64_t> sums_;
  std::set<uint32_t> joined_;
  std::string failure_;
  RunningClock clock_;
  std::chrono::milliseconds now_{0};
  std::mutex mutex_;  // guards `here_`
  std::condition_variable changed_;
  std::set<uint32_t> here_;  // joined and still connected
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: it uses all others
};

StoreServer::StoreServer(int listening_socket, uint32_t workers, std::chrono::milliseconds patience)
    : impl_(std::make_unique<Impl>(listening_socket, workers, patience)) {}
StoreServer::~StoreServer() = default;
void StoreServer::await_others(uint32_t own_rank, std::chrono::milliseconds limit) {
  impl_->await_others(own_rank, limit);
}

}  // namespace rannc::runtime
