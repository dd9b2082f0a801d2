#include "runtime/transport/internal/store_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rannc::runtime {

namespace {

constexpr size_t kNamedMissing = 8;
constexpr std::chrono::seconds kStrangerTime{5};
constexpr size_t kStrangers = 16;  // beside the workers that have not joined
constexpr size_t kWorkLimit = 4U << 10;

StoreWriter done() { return std::move(StoreWriter().number(static_cast<uint64_t>(StoreAnswer::kDone))); }

StoreWriter refused(const std::string& why) {
  return std::move(StoreWriter().number(static_cast<uint64_t>(StoreAnswer::kRefused)).text(why));
}

StoreWriter malformed() { return refused("worker 0 does not understand this request"); }

/// The connection ends with this answer.
StoreWriter turned_away(StorePeer& peer, const std::string& why) {
  peer.ends = true;
  return refused(why);
}

bool is_stranger(const StorePeer& peer) { return !peer.rank && !peer.closed; }

}  // namespace

void StoreService::admit(OwnedFile socket, std::string from, std::chrono::milliseconds now) {
  peers_.push_back({.socket = std::move(socket), .from = std::move(from), .since = now, .heard = now});
}

void StoreService::serve(StorePeer& peer, std::chrono::milliseconds now) {
  now_ = now;
  size_t served = 0;
  while (peer.in.size() - served >= 4 && (peer.closed || peer.out.empty()) && !peer.ends) {
    const size_t size = 4 + size_t{store_frame_size(std::string_view(peer.in).substr(served))};
    if (size < 4 + kStoreFrameLeast || size > peer.frame_limit()) return expire(peer);  // another program
    if (peer.in.size() - served < size) break;
    StoreReader request(std::string_view(peer.in).substr(served + 4, size - 4));
    peer.heard = now;
    peer.out = answer(peer, request).frame();
    served += size;
  }
  peer.in.erase(0, peer.ends ? std::string::npos : served);
}

StoreWriter StoreService::answer(StorePeer& peer, StoreReader& request) {
  const uint64_t code = request.number();
  if (code >= kStoreRequests) return peer.rank ? malformed() : turned_away(peer, "unknown request");
  const auto kind = static_cast<StoreRequest>(code);
  if (peer.rank) return serve_worker(peer, kind, request);
  const bool greeted = !peer.handshake.server_nonce.empty();
  if (kind == StoreRequest::kHello && !greeted) return greet(peer, request);
  if (kind == StoreRequest::kProve && greeted) return join(peer, request);
  return turned_away(peer, "the first requests must be a hello and a proof");
}

StoreWriter StoreService::greet(StorePeer& peer, StoreReader& request) const {
  const std::string magic = request.text(), nonce = request.text();
  if (!request.complete() || magic != kStoreMagic || nonce.size() != kStoreNonceSize)
    return turned_away(peer, "this is a worker of another version of rannc");
  const Result<std::string> own = random_hex(kStoreNonceSize / 2);
  if (!own.ok()) return turned_away(peer, own.diagnostic().message);
  peer.handshake = {.worker_nonce = nonce, .server_nonce = *own};
  return std::move(done().text(*own));
}

StoreWriter StoreService::join(StorePeer& peer, StoreReader& request) {
  const uint64_t rank = peer.handshake.rank = request.number(), workers = peer.handshake.workers = request.number();
  const std::string proof = request.text();
  if (!request.complete() || !equal_secrets(proof, peer.handshake.proof(secret_, "worker"))) {
    constexpr const char* kWhy = "does not have the secret of worker 0 (RANNC_SECRET)";
    refused_ = fmt::format("a process at {} that called itself worker {} was refused: it {}", peer.from, rank, kWhy);
    return turned_away(peer, fmt::format("worker {} {}", rank, kWhy));
  }
  if (workers != workers_) {
    return turned_away(peer,
                       fmt::format("worker {} expects {} workers, but worker 0 expects {}", rank, workers, workers_));
  }
  if (rank >= workers_)
    return turned_away(peer, fmt::format("worker {} does not exist in a run of {} workers", rank, workers_));
  const auto own = static_cast<uint32_t>(rank);
  if (!joined_.insert(own).second)
    return turned_away(peer, fmt::format("another process has already joined as worker {}", rank));
  peer.rank = own;
  const std::lock_guard lock(mutex_);
  here_.insert(own);
  return std::move(done().text(peer.handshake.proof(secret_, "server")));
}

StoreWriter StoreService::serve_worker(StorePeer& peer, StoreRequest kind, StoreReader& request) {
  switch (kind) {
    case StoreRequest::kBeat: {
      BusyWorker busy{.rank = *peer.rank, .work = request.text().substr(0, kWorkLimit)};
      busy.idle = request.time();
      if (!request.complete()) return malformed();
      peer.busy = std::move(busy);
      return beat(peer);
    }
    case StoreRequest::kLeave:
      if (!request.complete()) return malformed();
      peer.left = true;
      vacate(*peer.rank);
      return done();
    case StoreRequest::kFail: {
      std::string reason = request.text().substr(0, kStoreReasonLimit);
      if (!request.complete()) return malformed();
      fail(std::move(reason));
      return std::move(done().text(failure_));
    }
    case StoreRequest::kGet: {
      const std::string key = request.text();
      return request.complete() ? get(key) : malformed();
    }
    case StoreRequest::kSet:
      return set(request);
    case StoreRequest::kAdd:
      return add(request);
    default:
      return malformed();
  }
}

StoreWriter StoreService::get(const std::string& key) const {
  const auto found = table_.find(key);
  return std::move(done().number(found != table_.end()).text(found != table_.end() ? found->second : ""));
}

StoreWriter StoreService::set(StoreReader& request) {
  const std::string key = request.text();
  std::string value = request.text();
  if (!request.complete()) return malformed();
  table_[key] = std::move(value);
  return done();
}

StoreWriter StoreService::add(StoreReader& request) {
  const std::string key = request.text();
  const uint64_t value = request.number();
  if (!request.complete()) return malformed();
  const uint64_t sum = (sums_[key] += value);
  table_[key] = std::to_string(static_cast<int64_t>(sum));
  return std::move(done().number(sum));
}

StoreWriter StoreService::beat(const StorePeer& requester) const {
  const StorePeer* silent = nullptr;
  BusyWorker busy;
  for (const StorePeer& peer : peers_) {
    if (!peer.rank || peer.left) continue;
    if (silent == nullptr || peer.heard < silent->heard) silent = &peer;
    if (&peer == &requester || peer.busy.work.empty()) continue;
    if (busy.work.empty() || peer.busy.idle > busy.idle) busy = peer.busy;
  }
  return std::move(done()
                       .text(failure_)
                       .number(joined_.size())
                       .text(missing())
                       .text(joined_.size() == workers_ ? "" : refused_)
                       .number(silent == nullptr ? 0 : *silent->rank)
                       .number(silent == nullptr ? 0 : static_cast<uint64_t>((now_ - silent->heard).count()))
                       .number(busy.rank)
                       .number(static_cast<uint64_t>(busy.idle.count()))
                       .text(busy.work));
}

std::string StoreService::missing() const {
  std::string text;
  size_t named = 0;
  for (uint32_t rank = 0; rank < workers_; ++rank) {
    if (joined_.contains(rank)) continue;
    if (++named > kNamedMissing) return text + fmt::format(" and {} more", workers_ - joined_.size() - kNamedMissing);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  }
  return text;
}

void StoreService::depart(StorePeer& peer) {
  if (!peer.rank || std::exchange(peer.left, true)) return;
  fail(fmt::format("worker {} is gone: its process has ended", *peer.rank));
  vacate(*peer.rank);
}

void StoreService::expire(StorePeer& peer) {
  if (peer.rank && !peer.left) fail(fmt::format("worker {} sent a malformed request", *peer.rank));
  peer.closed = true;
  peer.in.clear();
}

void StoreService::vacate(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  here_.erase(rank);
  changed_.notify_all();
}

void StoreService::judge(std::chrono::milliseconds now) {
  const auto strangers = static_cast<size_t>(std::count_if(peers_.begin(), peers_.end(), is_stranger));
  const size_t allowed = kStrangers + workers_ - joined_.size();
  size_t too_many = strangers - std::min(strangers, allowed);
  for (StorePeer& peer : peers_) {
    if (is_stranger(peer)) {
      if (now - peer.since < kStrangerTime && too_many == 0) continue;
      too_many -= too_many > 0;
      expire(peer);
    } else if (!peer.left && !peer.closed && now - peer.heard >= patience_) {
      fail(fmt::format(
          "worker {} has not been heard from for {} ms: its process is stopped or its machine is unreachable",
          *peer.rank, (now - peer.heard).count()));
    }
  }
}

bool StoreService::close_oldest_stranger() {
  const auto oldest = std::find_if(peers_.begin(), peers_.end(), is_stranger);
  if (oldest == peers_.end()) return false;
  peers_.erase(oldest);
  return true;
}

void StoreService::await_others(uint32_t own_rank, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return here_.empty() || (here_.size() == 1 && *here_.begin() == own_rank); });
}

void StoreService::fail(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
}

}  // namespace rannc::runtime
