// Passes values between threads of one process.
#include "runtime/transport/transport_local.h"

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <tuple>

namespace rannc::runtime {
namespace {

using MessageName = std::tuple<DeviceId, DeviceId, MessageKey>;  // from, to
using CollectiveName = std::pair<CollectiveKey, std::vector<DeviceId>>;

std::string describe(const MessageKey& key) {
  const char* what = key.direction == Direction::kActivation ? "activation" : "gradient";
  return fmt::format("the {} of route {}, micro-batch {}", what, key.route, key.micro_batch);
}

/// State shared by all endpoints.
class Exchange {
 public:
  explicit Exchange(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  Result<void> post(const MessageName& name, Value value) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    if (!messages_.emplace(name, std::move(value)).second) return error("sent twice: " + describe(std::get<2>(name)));
    changed_.notify_all();
    return {};
  }

  Result<Value> take(const MessageName& name) {
    std::unique_lock lock(mutex_);
    const auto here = [&] { return messages_.contains(name); };
    if (auto stopped =
            await(lock, here,
                  "device " + std::to_string(std::get<0>(name).index()) + " to send " + describe(std::get<2>(name)))) {
      return *stopped;
    }
    return std::move(messages_.extract(name).mapped());
  }

  /// The last member to arrive adds all values in the order of `members`, so that the result is bit-identical for all.
  Result<Values> sum(const CollectiveName& name, DeviceId self, Values values) {
    std::unique_lock lock(mutex_);
    if (failure_) return *failure_;
    Collective& collective = collectives_[name];
    collective.parts[self] = std::move(values);
    if (collective.parts.size() == name.second.size()) {
      const std::map<DeviceId, Values> parts = std::move(collective.parts);
      lock.unlock();  // others may send during the addition
      Values total = add(name.second, parts);
      lock.lock();
      collective.total = std::move(total);
      collective.done = true;
      changed_.notify_all();
    } else if (auto stopped = await(
                   lock, [&] { return collective.done; }, "all members of a collective")) {
      return *stopped;
    }
    Values total = collective.total;
    if (++collective.fetched == name.second.size()) collectives_.erase(name);
    return total;
  }

  void abort(const Diagnostic& reason) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = reason;
    messages_.clear();
    changed_.notify_all();
  }

  std::optional<Diagnostic> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  struct Collective {
    std::map<DeviceId, Values> parts;
    Values total;
    bool done = false;
    size_t fetched = 0;
  };

  template <class Condition>
  std::optional<Diagnostic> await(std::unique_lock<std::mutex>& lock, Condition condition, const std::string& what) {
    const bool met = changed_.wait_for(lock, timeout_, [&] { return failure_.has_value() || condition(); });
    if (failure_) return failure_;
    if (!met) return error(fmt::format("waited {} ms for {}", timeout_.count(), what));
    return std::nullopt;
  }

  static Values add(const std::vector<DeviceId>& members, const std::map<DeviceId, Values>& parts) {
    Values total;
    for (size_t i = 0; i < parts.at(members.front()).size(); ++i) {
      Values terms;
      for (const DeviceId member : members) {
        const Values& part = parts.at(member);
        RANNC_CHECK(i < part.size()) << "members of a collective bring equally many values";
        terms.push_back(part[i]);
      }
      total.push_back(terms[0]->sum(terms));
    }
    return total;
  }

  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<MessageName, Value> messages_;
  std::map<CollectiveName, Collective> collectives_;
  std::optional<Diagnostic> failure_;
};

class LocalReceipt final : public Receipt {
 public:
  LocalReceipt(std::shared_ptr<Exchange> exchange, MessageName name)
      : exchange_(std::move(exchange)), name_(std::move(name)) {}
  Result<Value> wait() override { return exchange_->take(name_); }

 private:
  std::shared_ptr<Exchange> exchange_;
  MessageName name_;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<Exchange> exchange, DeviceId device, uint32_t devices)
      : exchange_(std::move(exchange)), device_(device), devices_(devices) {}

  DeviceId device() const override { return device_; }
  uint32_t devices() const override { return devices_; }
  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue) override {
    return exchange_->post({device_, to, key}, std::move(value));
  }
  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec&) override {
    if (auto reason = failure()) return *reason;
    return std::unique_ptr<Receipt>(std::make_unique<LocalReceipt>(exchange_, MessageName{from, device_, key}));
  }
  Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) override {
    return exchange_->sum({key, {members.begin(), members.end()}}, device_, std::move(values));
  }
  Result<void> flush() override {
    if (auto reason = failure()) return *reason;
    return {};
  }
  void abort(const Diagnostic& reason) override { exchange_->abort(reason); }
  std::optional<Diagnostic> failure() const override { return exchange_->failure(); }

 private:
  std::shared_ptr<Exchange> exchange_;
  DeviceId device_;
  uint32_t devices_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(uint32_t devices, std::chrono::milliseconds timeout) {
  const auto exchange = std::make_shared<Exchange>(timeout);
  std::vector<std::unique_ptr<Transport>> ends;
  for (uint32_t i = 0; i < devices; ++i) {
    ends.push_back(std::make_unique<LocalTransport>(exchange, DeviceId(i), devices));
  }
  return ends;
}

}  // namespace rannc::runtime
