/// Moves messages through the rings between this process and its peers.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ir/base/diagnostic.h"
#include "runtime/execute/progress.h"
#include "runtime/transport/internal/background_wait.h"
#include "runtime/transport/internal/bell.h"
#include "runtime/transport/internal/byte_ring.h"

namespace rannc::runtime {

/// Independent streams between two devices. Messages of one lane keep their order. Terms and totals of sums over
/// devices have lanes of their own, so that the totals of one sum and the terms of the next are on the way together.
enum class Lane : uint32_t { kMessages, kPassSums, kTerms, kTotals };
constexpr size_t kLanes = 4;

/// Precedes the bytes of a message. Both sides state it, so that bytes never reach another message's tensor.
struct MessageHead {
  uint64_t bytes = 0;
  uint64_t step = 0;
  uint32_t route = 0, micro_batch = 0;
  uint32_t direction = 0;
  uint32_t type = 0;  ///< of elements
  bool operator==(const MessageHead&) const = default;
};

/// A message to send. `owner` keeps `bytes` alive.
struct OutgoingMessage {
  MessageHead head;
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  bool held = false;  ///< `owner` is kept until `await_taken`
  std::string what;   ///< awaited event, for errors: `device 1 to take …`
};

/// A message to receive. `owner` keeps `bytes`, which the pump writes, alive. All else belongs to the pump.
struct IncomingMessage {
  MessageHead head;
  std::shared_ptr<void> owner;
  std::span<std::byte> bytes;
  std::string what;  ///< `device 1 to send …`

  size_t received = 0;
  bool done = false;
};

/// The rings to and from a peer, and the peer's bell.
struct PeerRings {
  Bell* bell = nullptr;  ///< null: no peer
  std::array<ByteRing, kLanes> to, from;
};

/// Sends and receives in the background. A thread of its own moves bytes while the device's thread computes. While the
/// device's thread waits, it moves them itself, which saves a switch of threads. Another thread may send, post and wait
/// in the background; a lane is used by one thread at a time. All other calls are the device's thread's, except `wake`.
class MessagePump {
 public:
  /// What ends all waits; empty if nothing does. Called at least every 50 ms of a wait.
  using Failure = std::function<std::optional<Diagnostic>()>;
  /// Returns the error for a message that arrived instead of the expected one.
  using Unexpected = std::function<Diagnostic(const MessageHead& found, const MessageHead& expected, uint32_t peer)>;

  /// `own` and the memory of the rings outlive the pump. `peers` is indexed by device.
  /// `progress` learns when the device waits, and may be null.
  MessagePump(Bell& own, const std::vector<PeerRings>& peers, Failure failure, Unexpected unexpected,
              Progress* progress = nullptr);
  /// Drops what is not sent.
  ~MessagePump();

  /// Never waits for the peer.
  void send(uint32_t peer, Lane lane, OutgoingMessage message);
  /// Receives the lane's next message into `message`.
  void post(uint32_t peer, Lane lane, const std::shared_ptr<IncomingMessage>& message);
  /// Waits until a posted message is complete.
  Result<void> await(const IncomingMessage& message, std::chrono::milliseconds timeout);
  /// Waits until a message that is not held has left its memory: `owner` is free.
  Result<void> await_left(const std::weak_ptr<const void>& owner, const std::string& what,
                          std::chrono::milliseconds timeout);
  /// The same for another thread, which leaves all work to the pump's thread or the device's. Without a time-out.
  Result<void> await(const IncomingMessage& message, BackgroundWait& wait);
  Result<void> await_left(const std::weak_ptr<const void>& owner, const std::string& what, BackgroundWait& wait);
  /// Waits until the peer has taken all messages of the lane but the last `left`, and frees the others. `timeout`
  /// limits the time from one message to the next.
  Result<void> await_taken(uint32_t peer, Lane lane, size_t left, std::chrono::milliseconds timeout);
  /// Makes a wait look for a failure now.
  void wake() { own_.ring(); }

 private:
  struct Sent {
    OutgoingMessage message;
    size_t written = 0;  ///< bytes, with the head
    uint64_t end = 0;    ///< position in the ring's stream
  };
  /// One direction of one lane.
  struct Sends {
    ByteRing ring;
    std::deque<Sent> unwritten, written;
    uint64_t end = 0;
    bool awaited = false;
    size_t untaken() const;
  };
  struct Receives {
    ByteRing ring;
    std::deque<std::shared_ptr<IncomingMessage>> posted;
    MessageHead head;
    size_t head_bytes = 0;  ///< read so far
  };
  struct Peer {
    uint32_t rank = 0;
    Bell* bell = nullptr;
    std::array<Sends, kLanes> sends;
    std::array<Receives, kLanes> receives;
  };

  Peer& peer(uint32_t rank);
  /// The following require the lock, move a limited number of bytes, and return whether they moved any.
  bool pump();
  /// Whether messages are unsent or expected.
  bool has_work() const;
  bool push(Peer& peer, Sends& sends);
  bool pull(Peer& peer, Receives& receives);
  size_t push_front(Sends& sends);
  size_t pull_front(const Peer& peer, Receives& receives);

  Result<void> wait(const std::function<bool()>& done, const std::function<std::string()>& what,
                    std::chrono::milliseconds timeout);
  Result<void> wait_for(const std::function<bool()>& done, const std::function<std::string()>& what,
                        std::chrono::milliseconds timeout, uint32_t& seen);
  Result<void> wait_in_background(const std::function<bool()>& done, const std::string& what, BackgroundWait& wait);
  void help();

  Bell& own_;
  Failure failure_;
  Unexpected unexpected_;
  Progress* progress_;
  std::mutex mutex_;
  std::condition_variable completed_;         ///< a message left or arrived, for waits in the background
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by rank; null: none
  std::optional<Diagnostic> broken_;
  bool left_ = false;  ///< a wait ended while bytes moved, with more to move
  bool stop_ = false;
  std::thread helper_;
};

}  // namespace rannc::runtime
