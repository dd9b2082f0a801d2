/// Limits how long enqueued messages wait for other devices.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/device/device.h"
#include "runtime/execute/running_clock.h"
#include "runtime/transport/internal/communicators.h"

namespace rannc::runtime {

/// A message that is enqueued on the stream of a channel.
struct EnqueuedMessage {
  EventRef start;    ///< reached when all earlier work is done
  EventRef done;     ///< reached when the message is
  std::string what;  ///< the awaited event, for messages
};

/// Reports messages that are not done in time, or that NCCL has failed to send, from its own thread. Time counts from
/// `start`, hence does not include work that this device does before. The device is queried about a message only once
/// half of the limit has passed, so the report may be late by as much. Thread-safe.
class MessageWatch {
 public:
  using Fail = std::function<void(const Diagnostic&)>;
  /// `fail` is called on the watch's thread, at most once.
  MessageWatch(Device& device, Communicators& communicators, std::chrono::milliseconds limit, Fail fail);
  ~MessageWatch();

  void add(const Channel& channel, EnqueuedMessage message);
  /// Waits until all messages are done, or until `stops` returns true. Returns an error that NCCL has noticed
  /// meanwhile.
  Result<void> drain(const std::function<bool()>& stops);

 private:
  using Milliseconds = std::chrono::milliseconds;
  struct Watched {
    EnqueuedMessage message;
    uint64_t number = 0;
    Milliseconds enqueued{0};
    std::optional<Milliseconds> started;
  };
  struct Queue {
    Channel channel;
    std::deque<Watched> messages;  // oldest first
  };
  void loop();
  /// Checks the oldest messages of a channel, and forgets those that are done.
  Result<void> check(Queue& queue);
  Result<bool> is_done(Watched& watched);

  Device& device_;
  Communicators& communicators_;
  const Milliseconds limit_;
  const Fail fail_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Stream, Queue> queues_;
  uint64_t added_ = 0;
  Milliseconds now_{0};  // of the watch's clock
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rannc::runtime
