// Passes or copies values between threads of one process.
#include "runtime/transport/transport_local.h"

#include <deque>
#include <map>

#include "runtime/transport/internal/local_exchange.h"

namespace rannc::runtime {
namespace {

class LocalReceipt final : public Receipt {
 public:
  LocalReceipt(std::shared_ptr<LocalExchange> exchange, LocalMessageName name,
               std::shared_ptr<LocalTransfer> transfer = nullptr)
      : exchange_(std::move(exchange)), name_(std::move(name)), transfer_(std::move(transfer)) {}
  Result<Arrived> wait() override {
    if (transfer_ != nullptr) {
      RANNC_TRY(exchange_->await_copy(name_, *transfer_));
      return Arrived{transfer_->into, transfer_->done};
    }
    RANNC_ASSIGN(Value value, exchange_->take(name_));
    return Arrived{std::move(value), nullptr};
  }

 private:
  std::shared_ptr<LocalExchange> exchange_;
  LocalMessageName name_;
  std::shared_ptr<LocalTransfer> transfer_;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalExchange> exchange, DeviceId device, uint32_t devices, Device& hardware)
      : exchange_(std::move(exchange)), device_(device), devices_(devices), hardware_(hardware) {}

  DeviceId device() const override { return device_; }
  Device& hardware() const override { return hardware_; }
  uint32_t devices() const override { return devices_; }

  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) override {
    counted_[to].messages += value->bytes();
    if (!hardware_.is_asynchronous()) return exchange_->post({device_, to, key}, std::move(value));
    Sent& queue = sent_[to];
    while (!queue.empty() && !queue.front()->held && exchange_->is_copied(*queue.front())) release_oldest(queue);
    RANNC_ASSIGN(auto transfer,
                 exchange_->send({device_, to, key}, std::move(value), hardware_.record(Stream::kCompute), hardware_));
    transfer->held = sent == SentValue::kHeldUntilAwaited;
    queue.push_back(std::move(transfer));
    return {};
  }

  Result<std::unique_ptr<Receipt>> receive(const MessageKey& key, DeviceId from, const TensorSpec& spec) override {
    if (auto reason = failure()) return *reason;
    const LocalMessageName name{from, device_, key};
    std::shared_ptr<LocalTransfer> transfer;
    if (hardware_.is_asynchronous()) {
      Value into = hardware_.allocate(spec);
      RANNC_ASSIGN(transfer, exchange_->receive(name, std::move(into), hardware_.record(Stream::kCompute), hardware_));
    }
    return std::unique_ptr<Receipt>(std::make_unique<LocalReceipt>(exchange_, name, std::move(transfer)));
  }

  Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) override {
    if (key.kind != CollectiveKey::Kind::kWithinPass) {
      while (!begun_.empty()) read_oldest();
    }
    RANNC_ASSIGN(const auto sum, bring(key, members, {std::move(values)}, 0));
    if (hardware_.is_asynchronous()) read(*sum);
    return finish(*sum);
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
    const auto copy = [&](LocalTerms brought) {
      for (size_t i = 0; i < parts.size(); ++i) {
        for (size_t k = 0; i != self && k < parts[i].size(); ++k) {
          if (parts[i][k]->bytes() > 0) parts[i][k]->overwrite(*hardware_.upload(brought[i][0][k]));
        }
      }
      return Values();
    };
    while (!begun_.empty()) read_oldest();
    const LocalCollectiveName name{key, {members.begin(), members.end()}};
    RANNC_TRY(exchange_->bring(name, device_, {parts[self]}, hardware_));
    const auto copied = exchange_->read_all(name, hardware_, copy);
    if (!copied.ok()) return copied.diagnostic();
    return {};
  }

  Result<void> await_sends(DeviceId to, size_t left) override {
    Sent& queue = sent_[to];
    RANNC_TRY(exchange_->await_taken(to, queue, left));
    while (queue.size() > left) release_oldest(queue);
    return {};
  }

  Result<void> flush() override {
    if (auto reason = failure()) return *reason;
    for (auto& [peer, queue] : sent_) RANNC_TRY(await_sends(peer, 0));
    return {};
  }

  /// Sums read the values of all members in place.
  SentByPeer sent_bytes() const override { return counted_; }

  void abort(const Diagnostic& reason) override { exchange_->abort(reason); }
  std::optional<Diagnostic> failure() const override { return exchange_->failure(); }

 private:
  using Sent = std::deque<std::shared_ptr<LocalTransfer>>;

  /// A sum of which this device has brought its terms.
  struct Begun {
    LocalCollectiveName name;
    size_t index = 0;  ///< of this device's values
    std::optional<Result<Values>> read;
    int64_t finished_ns = 0;
  };

  class LocalSum final : public PendingSum {
   public:
    LocalSum(LocalTransport& transport, std::shared_ptr<Begun> sum)
        : transport_(transport), exchange_(transport.exchange_), sum_(std::move(sum)) {}
    ~LocalSum() override {
      if (!waited_ && forgets_) exchange_->forget(sum_->name);
    }
    Result<Values> wait() override {
      waited_ = true;
      return transport_.finish(*sum_);
    }
    int64_t finished_ns() const override { return sum_->finished_ns; }

   private:
    LocalTransport& transport_;
    const std::shared_ptr<LocalExchange> exchange_;
    const std::shared_ptr<Begun> sum_;
    const bool forgets_ = !transport_.hardware_.is_asynchronous();  // others are read before later sums
    bool waited_ = false;
  };

  /// Threads of a CPU share the work at once. Other devices read the terms when they wait, in the order of begins:
  /// since none passes a sum before all have read its terms, another order could differ between them for ever.
  Result<std::shared_ptr<Begun>> bring(const CollectiveKey& key, std::span<const DeviceId> members,
                                       std::vector<Values> terms, size_t index) {
    auto sum = std::make_shared<Begun>(Begun{{key, {members.begin(), members.end()}}, index, {}, 0});
    if (!hardware_.is_asynchronous()) {
      RANNC_TRY(exchange_->add(sum->name, device_, std::move(terms)));
    } else {
      RANNC_TRY(exchange_->bring(sum->name, device_, std::move(terms), hardware_));
    }
    return sum;
  }

  Result<std::unique_ptr<PendingSum>> begin(const CollectiveKey& key, std::span<const DeviceId> members,
                                            std::vector<Values> terms, size_t index) {
    RANNC_ASSIGN(auto sum, bring(key, members, std::move(terms), index));
    if (hardware_.is_asynchronous()) begun_.push_back(sum);
    return std::unique_ptr<PendingSum>(std::make_unique<LocalSum>(*this, std::move(sum)));
  }

  Result<Values> finish(Begun& sum) {
    if (!hardware_.is_asynchronous()) {
      RANNC_ASSIGN(auto total, exchange_->total(sum.name, sum.index));
      sum.finished_ns = total.second;
      return std::move(total.first);
    }
    while (!sum.read) read_oldest();
    return *std::move(sum.read);
  }

  void read(Begun& sum) {
    sum.read = exchange_->read_all(sum.name, hardware_, [&](LocalTerms brought) {
      Values own = is_scattered(brought) ? brought[sum.index][sum.index] : Values();
      Values sums = sums_of_terms(here(std::move(brought), sum.index), sum.index);
      return own.empty() ? std::move(sums) : in_place(std::move(own), sums);
    });
    sum.finished_ns = now_ns();
  }

  void read_oldest() {
    const std::shared_ptr<Begun> sum = std::move(begun_.front());
    begun_.pop_front();
    read(*sum);
  }

  /// Copies the values that members bring at `index` to this device.
  LocalTerms here(LocalTerms brought, size_t index) const {
    for (std::vector<Values>& each : brought) {
      for (Value& value : each[index]) value = hardware_.upload(value);
    }
    return brought;
  }

  void release_oldest(Sent& queue) {
    hardware_.await(Stream::kCompute, queue.front()->done);
    queue.front()->value.reset();  // the receiver may still hold the transfer
    queue.pop_front();
  }

  std::shared_ptr<LocalExchange> exchange_;
  DeviceId device_;
  uint32_t devices_;
  Device& hardware_;
  std::map<DeviceId, Sent> sent_;             // by peer, oldest first
  std::deque<std::shared_ptr<Begun>> begun_;  // of an asynchronous device, not read yet
  SentByPeer counted_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(const std::vector<Device*>& devices,
                                                              std::chrono::milliseconds timeout) {
  const auto exchange = std::make_shared<LocalExchange>(timeout);
  const auto count = static_cast<uint32_t>(devices.size());
  std::vector<std::unique_ptr<Transport>> ends;
  for (uint32_t i = 0; i < count; ++i) {
    ends.push_back(std::make_unique<LocalTransport>(exchange, DeviceId(i), count, *devices[i]));
  }
  return ends;
}

std::vector<std::unique_ptr<Transport>> make_local_transports(uint32_t devices, std::chrono::milliseconds timeout) {
  return make_local_transports(std::vector<Device*>(devices, &cpu()), timeout);
}

}  // namespace rannc::runtime
