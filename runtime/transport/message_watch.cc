#include "runtime/transport/internal/message_watch.h"

#include <fmt/format.h>

namespace rannc::runtime {

namespace {

constexpr std::chrono::microseconds kDrainPeriod{50};

}  // namespace

MessageWatch::MessageWatch(Device& device, Communicators& communicators, Milliseconds limit, Fail fail)
    : device_(device), communicators_(communicators), limit_(limit), fail_(std::move(fail)), thread_([this] {
        loop();
      }) {}

MessageWatch::~MessageWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MessageWatch::add(const Channel& channel, EnqueuedMessage message) {
  const std::lock_guard lock(mutex_);
  Queue& queue = queues_[channel.stream];
  queue.channel = channel;
  queue.messages.push_back({std::move(message), added_++, now_, std::nullopt});
}

Result<void> MessageWatch::drain(const std::function<bool()>& stops) {
  std::vector<std::pair<Channel, Watched>> last;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, queue] : queues_) {
      if (!queue.messages.empty()) last.emplace_back(queue.channel, queue.messages.back());
    }
  }
  for (const auto& [channel, watched] : last) {
    while (!device_.is_reached(watched.message.done)) {
      if (stops()) return {};
      std::this_thread::sleep_for(kDrainPeriod);
    }
    // A message that fails is done as well.
    RANNC_TRY(communicators_.fault(channel, watched.message.what));
    const std::lock_guard lock(mutex_);
    auto& messages = queues_[channel.stream].messages;
    while (!messages.empty() && messages.front().number <= watched.number) messages.pop_front();
  }
  return {};
}

void MessageWatch::loop() {
  RunningClock clock;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, RunningClock::kTick, [this] { return stop_; })) {
    now_ = clock.now();
    for (auto& [stream, queue] : queues_) {
      const Result<void> well = check(queue);
      if (well.ok()) continue;
      lock.unlock();
      return fail_(well.diagnostic());
    }
  }
}

Result<void> MessageWatch::check(Queue& queue) {
  if (queue.messages.empty()) return {};
  RANNC_TRY(communicators_.fault(queue.channel, queue.messages.front().message.what));
  while (!queue.messages.empty()) {
    RANNC_ASSIGN(const bool done, is_done(queue.messages.front()));
    if (!done) break;
    queue.messages.pop_front();
  }
  return {};
}

Result<bool> MessageWatch::is_done(Watched& watched) {
  if (now_ - watched.enqueued < limit_ / 2) return false;
  try {
    if (device_.is_reached(watched.message.done)) return true;
    if (!watched.started && device_.is_reached(watched.message.start)) watched.started = now_;
  } catch (const std::exception& failed) {
    return error(fmt::format("the device failed while waiting for {}: {}", watched.message.what, plain(failed)));
  }
  if (!watched.started || now_ - *watched.started < limit_) return false;
  return error(fmt::format("waited {} ms for {}", (now_ - *watched.started).count(), watched.message.what));
}

}  // namespace rannc::runtime
