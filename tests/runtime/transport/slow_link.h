/// A transport whose messages and sums take time on the way.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/execute/now.h"
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

/// A sum over devices, and the time that it takes at one of them.
struct SumOnTheWay {
  DeviceId device;
  runtime::CollectiveKey key;
  int64_t start_ns = 0, end_ns = 0;
};

/// The links between the devices of a run. Messages of one link follow each other. So do the sums of a device, on a
/// link of its own: each takes the time of the bytes that the device sends for it, from when all members have begun it.
/// Messages and sums do not slow each other down. Thread-safe.
class SlowLinks {
 public:
  explicit SlowLinks(std::chrono::nanoseconds per_byte) : per_byte_(per_byte) {}

  void sent(DeviceId from, DeviceId to, const runtime::MessageKey& key, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    int64_t& busy_until = busy_until_[{from, to}];
    const int64_t start = std::max(runtime::now_ns(), busy_until);
    busy_until = start + static_cast<int64_t>(bytes) * per_byte_.count();
    messages_.push_back({from, to, key, start, busy_until});
  }
  /// Returns when a message that was sent has passed its link.
  void await(DeviceId from, DeviceId to, const runtime::MessageKey& key) const {
    int64_t end = 0;
    for (const OnTheWay& message : messages()) {
      if (message.from == from && message.to == to && message.key == key) end = message.end_ns;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(end - runtime::now_ns()));
  }
  std::vector<OnTheWay> messages() const {
    const std::lock_guard lock(mutex_);
    return messages_;
  }

  /// Returns when a sum is complete that all members had begun at `ready_ns`.
  int64_t summed(DeviceId device, const runtime::CollectiveKey& key, uint64_t bytes, int64_t ready_ns) {
    const std::lock_guard lock(mutex_);
    int64_t& busy_until = sums_busy_until_[device];
    const int64_t start = std::max(ready_ns, busy_until);
    busy_until = start + static_cast<int64_t>(bytes) * per_byte_.count();
    sums_.push_back({device, key, start, busy_until});
    return busy_until;
  }
  std::vector<SumOnTheWay> sums() const {
    const std::lock_guard lock(mutex_);
    return sums_;
  }

 private:
  const std::chrono::nanoseconds per_byte_;
  mutable std::mutex mutex_;
  std::map<std::pair<DeviceId, DeviceId>, int64_t> busy_until_;
  std::map<DeviceId, int64_t> sums_busy_until_;
  std::vector<OnTheWay> messages_;
  std::vector<SumOnTheWay> sums_;
};

/// One device's endpoint over slow links. Sums within passes take no time.
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
  Result<runtime::Values> all_reduce(const runtime::CollectiveKey& key, std::span<const DeviceId> members,
                                     runtime::Values values) override {
    if (key.kind == runtime::CollectiveKey::Kind::kWithinPass)
      return inner().all_reduce(key, members, std::move(values));
    RANNC_ASSIGN(const auto sum, begin_all_reduce(key, members, std::move(values)));
    return sum->wait();
  }
  Result<std::unique_ptr<runtime::PendingSum>> begin_all_reduce(const runtime::CollectiveKey& key,
                                                                std::span<const DeviceId> members,
                                                                runtime::Values values) override {
    const uint64_t bytes = 2 * bytes_of(values) * (members.size() - 1) / members.size();
    return slow(key, bytes, inner().begin_all_reduce(key, members, std::move(values)));
  }
  Result<std::unique_ptr<runtime::PendingSum>> begin_reduce_scatter(const runtime::CollectiveKey& key,
                                                                    std::span<const DeviceId> members,
                                                                    std::vector<runtime::Values> terms) override {
    uint64_t bytes = 0;
    for (size_t i = 0; i < terms.size(); ++i) bytes += members[i] == device() ? 0 : bytes_of(terms[i]);
    return slow(key, bytes, inner().begin_reduce_scatter(key, members, std::move(terms)));
  }

 private:
  struct Begun {
    runtime::CollectiveKey key;
    uint64_t bytes = 0;
    std::unique_ptr<runtime::PendingSum> inner;
    std::optional<Result<runtime::Values>> result;
    int64_t end_ns = 0;
  };
  class SlowSum final : public runtime::PendingSum {
   public:
    SlowSum(SlowTransport& transport, std::shared_ptr<Begun> begun) : transport_(transport), begun_(std::move(begun)) {}
    Result<runtime::Values> wait() override {
      while (!begun_->result) transport_.await_oldest();
      std::this_thread::sleep_for(std::chrono::nanoseconds(begun_->end_ns - runtime::now_ns()));
      return *std::move(begun_->result);
    }
    int64_t finished_ns() const override { return begun_->end_ns; }

   private:
    SlowTransport& transport_;
    std::shared_ptr<Begun> begun_;
  };

  static uint64_t bytes_of(const runtime::Values& values) {
    uint64_t bytes = 0;
    for (const runtime::Value& value : values) bytes += value->bytes();
    return bytes;
  }
  Result<std::unique_ptr<runtime::PendingSum>> slow(const runtime::CollectiveKey& key, uint64_t bytes,
                                                    Result<std::unique_ptr<runtime::PendingSum>> inner) {
    if (!inner.ok()) return inner;
    begun_.push_back(std::make_shared<Begun>(Begun{key, bytes, *std::move(inner), {}, 0}));
    return std::unique_ptr<runtime::PendingSum>(std::make_unique<SlowSum>(*this, begun_.back()));
  }
  void await_oldest() {
    const std::shared_ptr<Begun> oldest = std::move(begun_.front());
    begun_.pop_front();
    oldest->result = oldest->inner->wait();
    oldest->end_ns = links_.summed(device(), oldest->key, oldest->bytes, oldest->inner->finished_ns());
  }

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
  std::deque<std::shared_ptr<Begun>> begun_;  // not awaited, oldest first
};

}  // namespace rannc::testing
