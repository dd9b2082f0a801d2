// Serves the store with one thread that polls the listening sockets and the connections.
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/transport/internal/store.h"
#include "runtime/transport/internal/store_service.h"

namespace rannc::runtime {

namespace {

constexpr std::chrono::milliseconds kAcceptPause{200};  // while descriptors or memory are short
constexpr size_t kAcceptedAtOnce = 64;

bool is_shortage(int reason) { return reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM; }

/// Reads at most about a frame, so that no connection delays the others or fills the memory.
void read(StorePeer& peer) {
  char buffer[4096];
  ssize_t size = 0;
  do {
    size = recv(peer.socket.get(), buffer, sizeof(buffer), 0);
    if (size > 0) peer.in.append(buffer, static_cast<size_t>(size));
  } while (size > 0 && peer.in.size() <= peer.frame_limit());
  const bool lost = size == 0 || (size < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  peer.closed = lost || peer.in.size() > peer.frame_limit() + sizeof(buffer);
}

/// Returns whether all has been sent.
bool write(StorePeer& peer) {
  const ssize_t size = send(peer.socket.get(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
  if (size > 0) peer.out.erase(0, static_cast<size_t>(size));
  return peer.out.empty();
}

}  // namespace

class StoreServer::Impl {
 public:
  Impl(std::vector<OwnedFile> listening, const Rendezvous& where)
      : listening_(std::move(listening)), service_(where.workers, where.secret, where.timeout) {
    for (const OwnedFile& socket : listening_) fcntl(socket.get(), F_SETFL, O_NONBLOCK);
    thread_ = std::thread([this] { loop(); });
  }

  ~Impl() {
    stop_ = true;
    for (const OwnedFile& socket : listening_) shutdown(socket.get(), SHUT_RDWR);  // wakes the thread
    thread_.join();
  }

  void await_others(uint32_t own_rank, std::chrono::milliseconds limit) { service_.await_others(own_rank, limit); }

 private:
  void loop() {
    while (!stop_) {
      const std::vector<pollfd> ready = await_sockets();
      now_ = clock_.now();
      size_t index = listening_.size();
      for (StorePeer& peer : service_.peers()) {
        if ((ready[index++].revents & ~POLLOUT) != 0) read(peer);
      }
      // Handles disconnected workers first, because they are the reason why others lose their connections.
      for (StorePeer& peer : service_.peers()) {
        if (peer.closed) service_.serve(peer, now_), service_.depart(peer);
      }
      for (StorePeer& peer : service_.peers()) exchange(peer);
      service_.judge(now_);
      service_.peers().remove_if([](const StorePeer& peer) { return peer.closed; });
      for (size_t i = 0; i < listening_.size(); ++i) {
        if ((ready[i].revents & POLLIN) != 0) admit(listening_[i].get());
      }
    }
  }

  /// Waits for a tick at most. The listening sockets come first. Nothing is read from a peer that does not take
  /// answers.
  std::vector<pollfd> await_sockets() {
    std::vector<pollfd> sockets;
    for (const OwnedFile& socket : listening_) sockets.push_back({now_ < accept_at_ ? -1 : socket.get(), POLLIN, 0});
    for (const StorePeer& peer : service_.peers())
      sockets.push_back({peer.socket.get(), static_cast<short>(peer.out.empty() ? POLLIN : POLLOUT), 0});
    if (poll(sockets.data(), sockets.size(), static_cast<int>(RunningClock::kTick.count())) < 0 && errno != EINTR) {
      std::this_thread::sleep_for(RunningClock::kTick);  // memory or descriptors are short: tries all
      for (pollfd& socket : sockets) socket.revents = socket.events;
    }
    return sockets;
  }

  void exchange(StorePeer& peer) {
    while (!peer.closed) {
      if (!peer.out.empty() && !write(peer)) return;
      peer.closed = peer.ends;
      service_.serve(peer, now_);
      if (peer.closed) service_.depart(peer);
      if (peer.out.empty()) return;
    }
  }

  void admit(int listening) {
    for (size_t count = 0; count < kAcceptedAtOnce; ++count) {
      Address from;
      OwnedFile socket(
          accept4(listening, reinterpret_cast<sockaddr*>(&from.bytes), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.valid()) {
        const int on = 1;
        setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        service_.admit(std::move(socket), from.host(), now_);
        continue;
      }
      const int reason = errno;
      if (!is_shortage(reason)) return;
      if (service_.close_oldest_stranger()) continue;
      service_.note_shortage(std::strerror(reason));
      accept_at_ = now_ + kAcceptPause;
      return;
    }
  }

  const std::vector<OwnedFile> listening_;
  StoreService service_;
  RunningClock clock_;
  std::chrono::milliseconds now_{0}, accept_at_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

StoreServer::StoreServer(std::vector<OwnedFile> listening, const Rendezvous& where)
    : impl_(std::make_unique<Impl>(std::move(listening), where)) {}
StoreServer::~StoreServer() = default;
void StoreServer::await_others(uint32_t own_rank, std::chrono::milliseconds limit) {
  impl_->await_others(own_rank, limit);
}

}  // namespace rannc::runtime
