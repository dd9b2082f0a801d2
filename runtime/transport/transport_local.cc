// Passes or copies values between threads of one process.
#include "runtime/transport/transport_local.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

namespace rannc::runtime {
namespace {

using MessageName = std::tuple<DeviceId, DeviceId, MessageKey>;  // from, to
using CollectiveName = std::pair<CollectiveKey, std::vector<DeviceId>>;

/// A message in transit between asynchronous devices. The second of send and receive enqueues the copy.
struct Transfer {
  Value value, into;
  EventRef made, allocated;  ///< what the copy waits for
  EventRef done;
  bool copied = false;  ///< the copy is enqueued
  bool held = false;    ///< until the sender awaits it
};

/// What the members of a collective bring, in their order.
using Brought = std::vector<std::vector<Values>>;

/// Returns the sums of the values that each member brings at `index`.
Values sums_of(const Brought& brought, size_t index) {
  Values sums;
  for (size_t k = 0; k < brought[0][index].size(); ++k) {
    Values terms;
    for (const std::vector<Values>& each : brought) {
      RANNC_CHECK(k < each[index].size()) << "members of a collective bring equally many values";
      terms.push_back(each[index][k]);
    }
    sums.push_back(terms[0]->bytes() == 0 ? terms[0] : terms[0]->sum(terms));
  }
  return sums;
}

/// State shared by all endpoints.
class Exchange {
 public:
  explicit Exchange(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  // --- values passed by reference

  Result<void> post(const MessageName& name, Value value) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    if (!messages_.emplace(name, std::move(value)).second) return error("sent twice: " + describe(std::get<2>(name)));
    changed_.notify_all();
    return {};
  }

  Result<Value> take(const MessageName& name) {
    std::unique_lock lock(mutex_);
    RANNC_TRY(await(
        lock, [&] { return messages_.contains(name); }, awaited(name)));
    return std::move(messages_.extract(name).mapped());
  }

  // --- values copied between devices

  /// `by` is the device of the calling thread, which enqueues the copy if both sides are there.
  Result<std::shared_ptr<Transfer>> send(const MessageName& name, Value value, EventRef made, Device& by) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    const std::shared_ptr<Transfer> transfer = transfer_of(name);
    if (transfer->value != nullptr) return error("sent twice: " + describe(std::get<2>(name)));
    transfer->value = std::move(value);
    transfer->made = std::move(made);
    RANNC_TRY(copy(name, *transfer, std::get<1>(name), by));
    return transfer;
  }

  Result<std::shared_ptr<Transfer>> receive(const MessageName& name, Value into, EventRef allocated, Device& by) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    const std::shared_ptr<Transfer> transfer = transfer_of(name);
    transfer->into = std::move(into);
    transfer->allocated = std::move(allocated);
    RANNC_TRY(copy(name, *transfer, std::get<0>(name), by));
    return transfer;
  }

  /// Waits until the copy of a message that this device receives is enqueued.
  Result<void> await_copy(const MessageName& name, const Transfer& transfer) {
    std::unique_lock lock(mutex_);
    return await(
        lock, [&] { return transfer.copied; }, awaited(name));
  }

  /// Waits until at most `left` of the transfers, oldest first, are not yet taken by `peer`.
  Result<void> await_taken(DeviceId peer, const std::deque<std::shared_ptr<Transfer>>& sent, size_t left) {
    std::unique_lock lock(mutex_);
    const auto taken = [&] {
      return std::count_if(sent.begin(), sent.end(), [](const auto& each) { return !each->copied; }) <=
             static_cast<std::ptrdiff_t>(left);
    };
    return await(lock, taken, fmt::format("device {} to take a message", peer.index()));
  }

  bool is_copied(const Transfer& transfer) {
    const std::lock_guard lock(mutex_);
    return transfer.copied;
  }

  // --- sums

  /// The last member to come adds the values of all in the order of `members`, so that the results are bit-identical.
  Result<void> add(const CollectiveName& name, DeviceId self, std::vector<Values> brought) {
    std::unique_lock lock(mutex_);
    if (failure_) return *failure_;
    Collective& collective = collectives_[name];
    collective.parts[self] = {std::move(brought), nullptr};
    if (collective.parts.size() < name.second.size()) return {};
    const Parts parts = std::move(collective.parts);
    lock.unlock();  // others may send during the addition
    const Brought all = in_order(name.second, parts);
    std::vector<Values> totals;
    for (size_t i = 0; i < all[0].size(); ++i) totals.push_back(sums_of(all, i));
    lock.lock();
    collective.totals = std::move(totals);
    collective.finished_ns = trace_clock_ns();
    collective.done = true;
    changed_.notify_all();
    return {};
  }

  /// Returns the sums at `index` once all members have come, and when that was.
  Result<std::pair<Values, int64_t>> total(const CollectiveName& name, size_t index) {
    std::unique_lock lock(mutex_);
    if (failure_) return *failure_;
    const Collective& collective = collectives_[name];
    RANNC_TRY(await(
        lock, [&] { return collective.done; }, kAllMembers));
    std::pair<Values, int64_t> found{collective.totals[index], collective.finished_ns};
    fetched(name);
    return found;
  }

  /// A member leaves its result.
  void forget(const CollectiveName& name) {
    const std::lock_guard lock(mutex_);
    fetched(name);
  }

  /// Brings a member's values, for `read_all`.
  Result<void> bring(const CollectiveName& name, DeviceId self, std::vector<Values> brought, Device& device) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    collectives_[name].parts[self] = {std::move(brought), device.record(Stream::kCompute)};
    changed_.notify_all();
    return {};
  }

  /// Every member computes its result on its own device: `read` is given the values of all, in the order of the
  /// members. Nobody releases its values before all have read them.
  template <class Read>
  Result<Values> read_all(const CollectiveName& name, Device& device, Read&& read) {
    const size_t members = name.second.size();
    std::unique_lock lock(mutex_);
    Collective& collective = collectives_[name];
    RANNC_TRY(await(
        lock, [&] { return collective.parts.size() == members || collective.done; }, kAllMembers));
    Parts parts = collective.parts;
    lock.unlock();
    for (const auto& [member, part] : parts) device.await(Stream::kCompute, part.made);
    Values result = read(in_order(name.second, parts));
    parts.clear();
    EventRef has_read = device.record(Stream::kCompute);
    lock.lock();
    collective.read.push_back(std::move(has_read));
    collective.done = collective.read.size() == members;
    changed_.notify_all();
    RANNC_TRY(await(
        lock, [&] { return collective.done; }, kAllMembers));
    for (const EventRef& other : collective.read) device.await(Stream::kCompute, other);
    fetched(name);
    return result;
  }

  void abort(const Diagnostic& reason) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = reason;
    messages_.clear();
    transfers_.clear();
    changed_.notify_all();
  }

  std::optional<Diagnostic> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  static constexpr const char* kAllMembers = "all members of a collective";
  struct Part {
    std::vector<Values> values;
    EventRef made;
  };
  using Parts = std::map<DeviceId, Part>;
  struct Collective {
    Parts parts;
    std::vector<Values> totals;
    int64_t finished_ns = 0;
    std::vector<EventRef> read;  ///< one per member that has read the parts
    bool done = false;
    size_t fetched = 0;
  };

  /// Requires the lock.
  void fetched(const CollectiveName& name) {
    if (++collectives_[name].fetched == name.second.size()) collectives_.erase(name);
  }

  static std::string awaited(const MessageName& name) {
    return fmt::format("device {} to send {}", std::get<0>(name).index(), describe(std::get<2>(name)));
  }

  /// Returns the transfer of that name, which is forgotten once both sides have it.
  std::shared_ptr<Transfer> transfer_of(const MessageName& name) {
    const auto found = transfers_.find(name);
    if (found == transfers_.end()) return transfers_.emplace(name, std::make_shared<Transfer>()).first->second;
    return std::move(transfers_.extract(found).mapped());
  }

  Result<void> copy(const MessageName& name, Transfer& transfer, DeviceId peer, Device& by) {
    if (transfer.value == nullptr || transfer.into == nullptr) return {};
    if (!(transfer.value->spec() == transfer.into->spec()))
      return error(describe(std::get<2>(name)) + " has another type or shape than its receiver expects");
    const EventRef after[] = {transfer.made, transfer.allocated};
    transfer.done = by.copy(copies_with(peer), transfer.value, transfer.into, after);
    transfer.copied = true;
    changed_.notify_all();
    return {};
  }

  static Stream copies_with(DeviceId peer) {
    return static_cast<Stream>(static_cast<uint32_t>(Stream::kCopies) + peer.index());
  }

  template <class Condition>
  Result<void> await(std::unique_lock<std::mutex>& lock, Condition condition, const std::string& what) {
    const bool met = changed_.wait_for(lock, timeout_, [&] { return failure_.has_value() || condition(); });
    if (failure_) return *failure_;
    if (!met) return error(fmt::format("waited {} ms for {}", timeout_.count(), what));
    return {};
  }

  static Brought in_order(const std::vector<DeviceId>& members, const Parts& parts) {
    Brought brought;
    for (const DeviceId member : members) brought.push_back(parts.at(member).values);
    return brought;
  }

  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<MessageName, Value> messages_;
  std::map<MessageName, std::shared_ptr<Transfer>> transfers_;  // that one side knows
  std::map<CollectiveName, Collective> collectives_;
  std::optional<Diagnostic> failure_;
};

class LocalReceipt final : public Receipt {
 public:
  LocalReceipt(std::shared_ptr<Exchange> exchange, MessageName name, std::shared_ptr<Transfer> transfer = nullptr)
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
  std::shared_ptr<Exchange> exchange_;
  MessageName name_;
  std::shared_ptr<Transfer> transfer_;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<Exchange> exchange, DeviceId device, uint32_t devices, Device& hardware)
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
    const MessageName name{from, device_, key};
    std::shared_ptr<Transfer> transfer;
    if (hardware_.is_asynchronous()) {
      Value into = hardware_.allocate(spec);
      RANNC_ASSIGN(transfer, exchange_->receive(name, std::move(into), hardware_.record(Stream::kCompute), hardware_));
    }
    return std::unique_ptr<Receipt>(std::make_unique<LocalReceipt>(exchange_, name, std::move(transfer)));
  }

  Result<Values> all_reduce(const CollectiveKey& key, std::span<const DeviceId> members, Values values) override {
    return blocking(key, members, {std::move(values)}, 0);
  }

  Result<Values> reduce_scatter(const CollectiveKey& key, std::span<const DeviceId> members,
                                const std::vector<Values>& terms) override {
    return blocking(key, members, terms, position_in(members, device_));
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
    const auto copy = [&](Brought brought) {
      for (size_t i = 0; i < parts.size(); ++i) {
        for (size_t k = 0; i != self && k < parts[i].size(); ++k) {
          if (parts[i][k]->bytes() > 0) parts[i][k]->overwrite(*hardware_.upload(brought[i][0][k]));
        }
      }
      return Values();
    };
    while (!begun_.empty()) read_oldest();
    const CollectiveName name{key, {members.begin(), members.end()}};
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
  using Sent = std::deque<std::shared_ptr<Transfer>>;

  /// A sum of which this device has brought its terms.
  struct Begun {
    CollectiveName name;
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
    const std::shared_ptr<Exchange> exchange_;
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

  Result<Values> blocking(const CollectiveKey& key, std::span<const DeviceId> members, std::vector<Values> terms,
                          size_t index) {
    if (key.kind != CollectiveKey::Kind::kWithinPass) {
      while (!begun_.empty()) read_oldest();
    }
    RANNC_ASSIGN(const auto sum, bring(key, members, std::move(terms), index));
    if (hardware_.is_asynchronous()) read(*sum);
    return finish(*sum);
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
    sum.read = exchange_->read_all(
        sum.name, hardware_, [&](Brought brought) { return sums_of(here(std::move(brought), sum.index), sum.index); });
    sum.finished_ns = trace_clock_ns();
  }

  void read_oldest() {
    const std::shared_ptr<Begun> sum = std::move(begun_.front());
    begun_.pop_front();
    read(*sum);
  }

  /// Copies the values that members bring at `index` to this device.
  Brought here(Brought brought, size_t index) const {
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

  std::shared_ptr<Exchange> exchange_;
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
  const auto exchange = std::make_shared<Exchange>(timeout);
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
