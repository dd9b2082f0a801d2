// Passes values between threads of one process.
#include "runtime/transport/transport_local.h"

#include <utility>

#include "runtime/transport/internal/local_exchange.h"

namespace rannc::runtime {
namespace {

using Exchange = std::shared_ptr<LocalExchange>;

class LocalReceipt final : public Receipt {
 public:
  LocalReceipt(Exchange exchange, LocalMessageName name) : exchange_(std::move(exchange)), name_(std::move(name)) {}
  Result<Arrived> wait() override {
    RANNC_ASSIGN(Value value, exchange_->take(name_));
    return Arrived{std::move(value), nullptr};
  }

 private:
  Exchange exchange_;
  LocalMessageName name_;
};

/// A sum of which this device has brought its terms.
class LocalSum final : public PendingSum {
 public:
  /// `index`: of this device's values.
  LocalSum(Exchange exchange, LocalCollectiveName name, size_t index)
      : exchange_(std::move(exchange)), name_(std::move(name)), index_(index) {}
  ~LocalSum() override {
    if (!waited_) exchange_->forget(name_);
  }
  Result<Values> wait() override {
    waited_ = true;
    RANNC_ASSIGN(auto total, exchange_->total(name_, index_));
    finished_ns_ = total.second;
    return std::move(total.first);
  }
  int64_t finished_ns() const override { return finished_ns_; }

 private:
  const Exchange exchange_;
  const LocalCollectiveName name_;
  const size_t index_;
  bool waited_ = false;
  int64_t finished_ns_ = 0;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(Exchange exchange, DeviceId device, uint32_t devices)
      : exchange_(std::move(exchange)), device_(device), devices_(devices) {}

  DeviceId device() const override { return device_; }
  uint32_t devices() const override { return devices_; }

  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue) override {
    counted_[to].messages += value->bytes();
    return exchange_->post({device_, to, key}, std::move(value));
  }

  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec&) override {
    if (auto reason = failure()) return *reason;
    return std::unique_ptr<Receipt>(std::make_unique<LocalReceipt>(exchange_, LocalMessageName{from, device_, key}));
  }

  Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) override {
    RANNC_ASSIGN(const auto sum, begin_all_reduce(key, members, std::move(values)));
    return sum->wait();
  }

  Result<std::unique_ptr<PendingSum>> begin_all_reduce(const CollectiveKey& key, std::span<const DeviceId> members,
                                                       Values values) override {
    return begin(key, members, {std::move(values)}, 0);
  }

  Result<std::unique_ptr<PendingSum>> begin_reduce_scatter(const CollectiveKey& key, std::span<const DeviceId> members,
                                                           std::vector<Values> terms) override {
    return begin(key, members, std::move(terms), position_in(members, device_));
  }

  Result<void> all_gather(const CollectiveKey& key, std::span<const DeviceId> members,
                          const std::vector<Values>& parts) override {
    const size_t self = position_in(members, device_);
    const LocalCollectiveName name{key, {members.begin(), members.end()}};
    return exchange_->read_all(name, device_, {parts[self]}, [&](const LocalTerms& brought) {
      for (size_t i = 0; i < parts.size(); ++i) {
        for (size_t k = 0; i != self && k < parts[i].size(); ++k) {
          if (parts[i][k]->bytes() > 0) parts[i][k]->overwrite(*brought[i][0][k]);
        }
      }
    });
  }

  Result<void> flush() override {
    if (auto reason = failure()) return *reason;
    return {};
  }

  /// Sums read the values of all members in place.
  SentByPeer sent_bytes() const override { return counted_; }

  void abort(const Diagnostic& reason) override { exchange_->abort(reason); }
  std::optional<Diagnostic> failure() const override { return exchange_->failure(); }

 private:
  /// Threads share the work at once.
  Result<std::unique_ptr<PendingSum>> begin(const CollectiveKey& key, std::span<const DeviceId> members,
                                            std::vector<Values> terms, size_t index) {
    LocalCollectiveName name{key, {members.begin(), members.end()}};
    RANNC_TRY(exchange_->add(name, device_, std::move(terms)));
    return std::unique_ptr<PendingSum>(std::make_unique<LocalSum>(exchange_, std::move(name), index));
  }

  const Exchange exchange_;
  const DeviceId device_;
  const uint32_t devices_;
  SentByPeer counted_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(uint32_t devices, std::chrono::milliseconds timeout) {
  const auto exchange = std::make_shared<LocalExchange>(timeout);
  std::vector<std::unique_ptr<Transport>> ends;
  for (uint32_t i = 0; i < devices; ++i)
    ends.push_back(std::make_unique<LocalTransport>(exchange, DeviceId(i), devices));
  return ends;
}

}  // namespace rannc::runtime
