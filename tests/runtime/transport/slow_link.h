/// A transport whose messages take time on the way.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/transport/forwarding_transport.h"

namespace rannc::testing {

/// Calls that end only when their message has arrived.
enum class Blocking : uint8_t { kNothing, kSends, kReceives };

/// A message, and the time that it takes, ns on the steady clock.
struct OnTheWay {
  DeviceId from, to;
  runtime::MessageKey key;
  int64_t start_ns = 0, end_ns = 0;
};

/// The links between the devices of a run. Messages of one link follow each other. Thread-safe.
class SlowLinks {
 public:
  explicit SlowLinks(std::chrono::nanoseconds per_byte) : per_byte_(per_byte) {}

  void sent(DeviceId from, DeviceId to, const runtime::MessageKey& key, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    int64_t& busy_until = busy_until_[{from, to}];
    const int64_t start = std::max(now_ns(), busy_until);
    busy_until = start + static_cast<int64_t>(bytes) * per_byte_.count();
    messages_.push_back({from, to, key, start, busy_until});
  }
  /// Returns when a message that was sent has passed its link.
  void await(DeviceId from, DeviceId to, const runtime::MessageKey& key) const {
    int64_t end = 0;
    for (const OnTheWay& message : messages()) {
      if (message.from == from && message.to == to && message.key == key) end = message.end_ns;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(end - now_ns()));
  }
  std::vector<OnTheWay> messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }

 private:
  static int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

  const std::chrono::nanoseconds per_byte_;
  mutable std::mutex mutex_;
  std::map<std::pair<DeviceId, DeviceId>, int64_t> busy_until_;
  std::vector<OnTheWay> messages_;
};

/// One device's endpoint over slow links.
class SlowTransport final : public ForwardingTransport {
 public:
  SlowTransport(std::unique_ptr<runtime::Transport> inner, SlowLinks& links, Blocking blocking)
      : ForwardingTransport(std::move(inner)), links_(links), blocking_(blocking) {}

  Result<void> send(const runtime::MessageKey& key, DeviceId to, runtime::Value value,
                    runtime::SentValue sent) override {
    links_.sent(device(), to, key, value->bytes());
    RANNC_TRY(inner().send(key, to, std::move(value), sent));
    if (blocking_ == Blocking::kSends) links_.await(device(), to, key);
    return {};
  }
  Result<std::unique_ptr<runtime::Receipt>> receive(const runtime::MessageKey& key, DeviceId from,
                                                    const runtime::TensorSpec& spec) override {
    RANNC_ASSIGN(auto receipt, inner().receive(key, from, spec));
    auto slow = std::make_unique<SlowReceipt>(*this, std::move(receipt), from, key);
    if (blocking_ == Blocking::kReceives) RANNC_TRY(slow->arrive());
    return std::unique_ptr<runtime::Receipt>(std::move(slow));
  }

 private:
  class SlowReceipt final : public runtime::Receipt {
   public:
    SlowReceipt(SlowTransport& transport, std::unique_ptr<runtime::Receipt> inner, DeviceId from,
                const runtime::MessageKey& key)
        : transport_(transport), inner_(std::move(inner)), from_(from), key_(key) {}
    Result<void> arrive() {
      RANNC_ASSIGN(arrived_, inner_->wait());
      transport_.links_.await(from_, transport_.device(), key_);
      return {};
    }
    Result<runtime::Arrived> wait() override {
      if (arrived_.value == nullptr) RANNC_TRY(arrive());
      return std::move(arrived_);
    }

   private:
    SlowTransport& transport_;
    std::unique_ptr<runtime::Receipt> inner_;
    DeviceId from_;
    runtime::MessageKey key_;
    runtime::Arrived arrived_;
  };

  SlowLinks& links_;
  Blocking blocking_;
};

}  // namespace rannc::testing
