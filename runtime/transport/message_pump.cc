#include "runtime/transport/internal/message_pump.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/execute/running_clock.h"

namespace rannc::runtime {

namespace {

// Bytes that are moved under one lock, and that the peer sees at once, so that both sides copy at the same time.
constexpr size_t kPieceBytes = 64 << 10;

std::span<const std::byte> piece_of(std::span<const std::byte> bytes) {
  return bytes.first(std::min(bytes.size(), kPieceBytes));
}

}  // namespace

size_t MessagePump::Sends::untaken() const {
  const uint64_t read = ring.bytes_read();
  return unwritten.size() + static_cast<size_t>(std::count_if(written.begin(), written.end(),
                                                              [read](const Sent& sent) { return sent.end > read; }));
}

MessagePump::MessagePump(Bell& own, const std::vector<PeerRings>& peers, Failure failure, Unexpected unexpected,
                         Progress* progress)
    : own_(own), failure_(std::move(failure)), unexpected_(std::move(unexpected)), progress_(progress) {
  for (const PeerRings& rings : peers) {
    const auto rank = static_cast<uint32_t>(peers_.size());
    peers_.push_back(rings.bell == nullptr ? nullptr : std::make_unique<Peer>());
    if (peers_.back() == nullptr) continue;
    peers_.back()->rank = rank;
    peers_.back()->bell = rings.bell;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      peers_.back()->sends[lane].ring = rings.to[lane];
      peers_.back()->receives[lane].ring = rings.from[lane];
    }
  }
  helper_ = std::thread([this] { help(); });
}

MessagePump::~MessagePump() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  own_.ring();
  helper_.join();
}

MessagePump::Peer& MessagePump::peer(uint32_t rank) {
  RANNC_CHECK(rank < peers_.size() && peers_[rank] != nullptr) << "device " << rank << " is not a peer";
  return *peers_[rank];
}

void MessagePump::send(uint32_t rank, Lane lane, OutgoingMessage message) {
  RANNC_CHECK(message.head.bytes == message.bytes.size()) << "the head states the size";
  {
    const std::lock_guard lock(mutex_);
    Sends& sends = peer(rank).sends[static_cast<size_t>(lane)];
    sends.end += sizeof(MessageHead) + message.bytes.size();
    sends.unwritten.push_back({std::move(message), 0, sends.end});
    push(peer(rank), sends);
    if (sends.unwritten.empty()) return;
  }
  own_.ring();
}

void MessagePump::post(uint32_t rank, Lane lane, const std::shared_ptr<IncomingMessage>& message) {
  RANNC_CHECK(message->head.bytes == message->bytes.size()) << "the head states the size";
  {
    const std::lock_guard lock(mutex_);
    Receives& receives = peer(rank).receives[static_cast<size_t>(lane)];
    receives.posted.push_back(message);
    if (!pull(peer(rank), receives) || receives.posted.empty()) return;
  }
  own_.ring();
}

Result<void> MessagePump::await(const IncomingMessage& message, std::chrono::milliseconds timeout) {
  return wait([&] { return message.done; }, [&] { return message.what; }, timeout);
}

Result<void> MessagePump::await_left(const std::weak_ptr<const void>& owner, const std::string& what,
                                     std::chrono::milliseconds timeout) {
  return wait([&] { return owner.expired(); }, [&] { return what; }, timeout);
}

Result<void> MessagePump::await(const IncomingMessage& message, BackgroundWait& wait) {
  return wait_in_background([&] { return message.done; }, message.what, wait);
}

Result<void> MessagePump::await_left(const std::weak_ptr<const void>& owner, const std::string& what,
                                     BackgroundWait& wait) {
  return wait_in_background([&] { return owner.expired(); }, what, wait);
}

Result<void> MessagePump::wait_in_background(const std::function<bool()>& done, const std::string& what,
                                             BackgroundWait& wait) {
  const BackgroundWait::Scope scope(wait, what, [this] { completed_.notify_all(); });
  std::unique_lock lock(mutex_);
  while (true) {
    if (done()) return {};
    if (broken_) return *broken_;
    if (wait.ended()) return BackgroundWait::ended_error();
    if (completed_.wait_for(lock, RunningClock::kTick) == std::cv_status::no_timeout) continue;
    lock.unlock();
    if (auto failure = failure_()) return *failure;
    lock.lock();
  }
}

Result<void> MessagePump::await_taken(uint32_t rank, Lane lane, size_t left, std::chrono::milliseconds timeout) {
  Sends& sends = peer(rank).sends[static_cast<size_t>(lane)];
  const auto untaken = [&] {
    const std::lock_guard lock(mutex_);
    sends.awaited = true;
    sends.ring.writer_waits(true);
    return sends.untaken();
  };
  const auto what = [&] {
    const uint64_t read = sends.ring.bytes_read();
    const auto found =
        std::find_if(sends.written.begin(), sends.written.end(), [read](const Sent& sent) { return sent.end > read; });
    return found != sends.written.end() ? found->message.what : sends.unwritten.front().message.what;
  };
  Result<void> result;
  for (size_t open = untaken(); result.ok() && open > left; open = untaken()) {
    result = wait([&] { return sends.untaken() < open; }, what, timeout);
  }
  const std::lock_guard lock(mutex_);
  sends.awaited = false;
  if (sends.unwritten.empty()) sends.ring.writer_waits(false);
  while (result.ok() && !sends.written.empty() && sends.written.size() + sends.unwritten.size() > left) {
    sends.written.pop_front();
  }
  return result;
}

Result<void> MessagePump::wait(const std::function<bool()>& done, const std::function<std::string()>& what,
                               std::chrono::milliseconds timeout) {
  const Progress::Waiting waiting(progress_);
  uint32_t seen = own_.rings();
  own_.device_waits(true);
  Result<void> result = wait_for(done, what, timeout, seen);
  own_.device_waits(false);
  if (left_ || own_.rings() != seen) own_.ring();  // for the helper
  return result;
}

Result<void> MessagePump::wait_for(const std::function<bool()>& done, const std::function<std::string()>& what,
                                   std::chrono::milliseconds timeout, uint32_t& seen) {
  for (RunningClock clock;;) {
    seen = own_.rings();
    std::string awaited;
    bool moved = false;
    {
      const std::lock_guard lock(mutex_);
      moved = pump();
      left_ = moved && has_work();
      if (done()) return {};
      if (broken_) return *broken_;
      if (clock.now() >= timeout) awaited = what();
    }
    if (auto failure = failure_()) return *failure;
    if (!awaited.empty()) return error(fmt::format("waited {} ms for {}", timeout.count(), awaited));
    if (!moved) own_.listen(Bell::Listener::kDevice, seen, RunningClock::kTick);
  }
}

void MessagePump::help() {
  for (bool moved = true;;) {
    const uint32_t seen = own_.rings();
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      moved = !own_.device_waits() && pump();
    }
    if (!moved) own_.listen(Bell::Listener::kHelper, seen, RunningClock::kTick);
  }
}

bool MessagePump::has_work() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    if (peer == nullptr) return false;
    const auto unsent = [](const Sends& sends) { return !sends.unwritten.empty(); };
    const auto expected = [](const Receives& receives) { return !receives.posted.empty(); };
    return std::any_of(peer->sends.begin(), peer->sends.end(), unsent) ||
           std::any_of(peer->receives.begin(), peer->receives.end(), expected);
  });
}

bool MessagePump::pump() {
  bool moved = false;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      moved |= push(*peer, peer->sends[lane]);
      moved |= pull(*peer, peer->receives[lane]);
    }
  }
  return moved;
}

// The flag is set before the ring is found full, so that no space goes unnoticed.
bool MessagePump::push(Peer& peer, Sends& sends) {
  if (sends.written.empty() && sends.unwritten.empty()) return false;
  const uint64_t read = sends.ring.bytes_read();
  while (!sends.written.empty() && !sends.written.front().message.held && sends.written.front().end <= read) {
    sends.written.pop_front();
  }
  if (sends.unwritten.empty()) return false;
  sends.ring.writer_waits(true);
  const size_t count = push_front(sends);
  if (count > 0 && sends.ring.reader_waits()) peer.bell->ring();
  if (sends.unwritten.empty() && !sends.awaited) sends.ring.writer_waits(false);
  return count > 0;
}

size_t MessagePump::push_front(Sends& sends) {
  Sent& sent = sends.unwritten.front();
  OutgoingMessage& message = sent.message;
  size_t count = 0;
  if (sent.written < sizeof(MessageHead)) {
    count = sends.ring.write(std::as_bytes(std::span(&message.head, 1)).subspan(sent.written));
    sent.written += count;
    if (sent.written < sizeof(MessageHead)) return count;
  }
  const size_t payload = sends.ring.write(piece_of(message.bytes.subspan(sent.written - sizeof(MessageHead))));
  sent.written += payload;
  if (sent.written == sizeof(MessageHead) + message.bytes.size()) {
    if (!message.held) message.owner.reset();
    sends.written.push_back(std::move(sent));
    sends.unwritten.pop_front();
    completed_.notify_all();
  }
  return count + payload;
}

bool MessagePump::pull(Peer& peer, Receives& receives) {
  if (receives.posted.empty() || broken_) return false;
  receives.ring.reader_waits(true);
  const size_t count = pull_front(peer, receives);
  if (count > 0 && receives.ring.writer_waits()) peer.bell->ring();
  if (receives.posted.empty()) receives.ring.reader_waits(false);
  return count > 0;
}

size_t MessagePump::pull_front(const Peer& peer, Receives& receives) {
  IncomingMessage& message = *receives.posted.front();
  size_t count = 0;
  if (receives.head_bytes < sizeof(MessageHead)) {
    count = receives.ring.read(std::as_writable_bytes(std::span(&receives.head, 1)).subspan(receives.head_bytes));
    receives.head_bytes += count;
    if (receives.head_bytes < sizeof(MessageHead)) return count;
    if (receives.head != message.head) {
      broken_ = unexpected_(receives.head, message.head, peer.rank);
      completed_.notify_all();
      return count;
    }
  }
  const std::span<std::byte> rest = message.bytes.subspan(message.received);
  const size_t payload = receives.ring.read(rest.first(std::min(rest.size(), kPieceBytes)));
  message.received += payload;
  if (message.received == message.bytes.size()) {
    message.done = true;
    receives.head_bytes = 0;
    receives.posted.pop_front();
    completed_.notify_all();
  }
  return count + payload;
}

}  // namespace rannc::runtime
