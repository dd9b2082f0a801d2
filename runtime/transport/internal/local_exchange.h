/// What the threads of one process share to exchange messages and sums.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/execute/now.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

using LocalMessageName = std::tuple<DeviceId, DeviceId, MessageKey>;  // from, to
using LocalCollectiveName = std::pair<CollectiveKey, std::vector<DeviceId>>;

/// A message in transit between asynchronous devices. The second of send and receive enqueues the copy.
struct LocalTransfer {
  Value value, into;
  EventRef made, allocated;  ///< what the copy waits for
  EventRef done;
  bool copied = false;  ///< the copy is enqueued
  bool held = false;    ///< until the sender awaits it
};

/// What the members of a collective bring, in their order.
using LocalTerms = std::vector<std::vector<Values>>;

/// Returns the sums of the values that each member brings at `index`.
inline Values sums_of_terms(const LocalTerms& brought, size_t index) {
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

/// Whether the sum at each index is one member's, in the memory of its own terms.
inline bool is_scattered(const LocalTerms& brought) { return brought[0].size() > 1; }

/// Replaces a member's own terms by sums.
inline Values in_place(Values own, const Values& sums) {
  for (size_t k = 0; k < own.size(); ++k) {
    if (own[k]->bytes() > 0) own[k]->overwrite(*sums[k]);
  }
  return own;
}

/// State shared by all endpoints.
class LocalExchange {
 public:
  explicit LocalExchange(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  // --- values passed by reference

  Result<void> post(const LocalMessageName& name, Value value) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    if (!messages_.emplace(name, std::move(value)).second) return error("sent twice: " + describe(std::get<2>(name)));
    changed_.notify_all();
    return {};
  }

  Result<Value> take(const LocalMessageName& name) {
    std::unique_lock lock(mutex_);
    RANNC_TRY(await(
        lock, [&] { return messages_.contains(name); }, awaited(name)));
    return std::move(messages_.extract(name).mapped());
  }

  // --- values copied between devices

  /// `by` is the device of the calling thread, which enqueues the copy if both sides are there.
  Result<std::shared_ptr<LocalTransfer>> send(const LocalMessageName& name, Value value, EventRef made, Device& by) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    const std::shared_ptr<LocalTransfer> transfer = transfer_of(name);
    if (transfer->value != nullptr) return error("sent twice: " + describe(std::get<2>(name)));
    transfer->value = std::move(value);
    transfer->made = std::move(made);
    RANNC_TRY(copy(name, *transfer, std::get<1>(name), by));
    return transfer;
  }

  Result<std::shared_ptr<LocalTransfer>> receive(const LocalMessageName& name, Value into, EventRef allocated,
                                                 Device& by) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    const std::shared_ptr<LocalTransfer> transfer = transfer_of(name);
    transfer->into = std::move(into);
    transfer->allocated = std::move(allocated);
    RANNC_TRY(copy(name, *transfer, std::get<0>(name), by));
    return transfer;
  }

  /// Waits until the copy of a message that this device receives is enqueued.
  Result<void> await_copy(const LocalMessageName& name, const LocalTransfer& transfer) {
    std::unique_lock lock(mutex_);
    return await(
        lock, [&] { return transfer.copied; }, awaited(name));
  }

  /// Waits until at most `left` of the transfers, oldest first, are not yet taken by `peer`.
  Result<void> await_taken(DeviceId peer, const std::deque<std::shared_ptr<LocalTransfer>>& sent, size_t left) {
    std::unique_lock lock(mutex_);
    const auto taken = [&] {
      return std::count_if(sent.begin(), sent.end(), [](const auto& each) { return !each->copied; }) <=
             static_cast<std::ptrdiff_t>(left);
    };
    return await(lock, taken, fmt::format("device {} to take a message", peer.index()));
  }

  bool is_copied(const LocalTransfer& transfer) {
    const std::lock_guard lock(mutex_);
    return transfer.copied;
  }

  // --- sums

  /// The last member to come adds the values of all in the order of `members`, so that the results are bit-identical.
  Result<void> add(const LocalCollectiveName& name, DeviceId self, std::vector<Values> brought) {
    std::unique_lock lock(mutex_);
    if (failure_) return *failure_;
    Collective& collective = collectives_[name];
    collective.parts[self] = {std::move(brought), nullptr};
    if (collective.parts.size() < name.second.size()) return {};
    const Parts parts = std::move(collective.parts);
    lock.unlock();  // others may send during the addition
    const LocalTerms all = in_order(name.second, parts);
    std::vector<Values> totals;
    for (size_t i = 0; i < all[0].size(); ++i) {
      totals.push_back(sums_of_terms(all, i));
      if (is_scattered(all)) totals.back() = in_place(all[i][i], totals.back());
    }
    lock.lock();
    collective.totals = std::move(totals);
    collective.finished_ns = now_ns();
    collective.done = true;
    changed_.notify_all();
    return {};
  }

  /// Returns the sums at `index` once all members have come, and when that was.
  Result<std::pair<Values, int64_t>> total(const LocalCollectiveName& name, size_t index) {
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
  void forget(const LocalCollectiveName& name) {
    const std::lock_guard lock(mutex_);
    fetched(name);
  }

  /// Brings a member's values, for `read_all`.
  Result<void> bring(const LocalCollectiveName& name, DeviceId self, std::vector<Values> brought, Device& device) {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    collectives_[name].parts[self] = {std::move(brought), device.record(Stream::kCompute)};
    changed_.notify_all();
    return {};
  }

  /// Every member computes its result on its own device: `read` is given the values of all, in the order of the
  /// members. Nobody releases its values before all have read them.
  template <class Read>
  Result<Values> read_all(const LocalCollectiveName& name, Device& device, Read&& read) {
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
  void fetched(const LocalCollectiveName& name) {
    if (++collectives_[name].fetched == name.second.size()) collectives_.erase(name);
  }

  static std::string awaited(const LocalMessageName& name) {
    return fmt::format("device {} to send {}", std::get<0>(name).index(), describe(std::get<2>(name)));
  }

  /// Returns the transfer of that name, which is forgotten once both sides have it.
  std::shared_ptr<LocalTransfer> transfer_of(const LocalMessageName& name) {
    const auto found = transfers_.find(name);
    if (found == transfers_.end()) return transfers_.emplace(name, std::make_shared<LocalTransfer>()).first->second;
    return std::move(transfers_.extract(found).mapped());
  }

  Result<void> copy(const LocalMessageName& name, LocalTransfer& transfer, DeviceId peer, Device& by) {
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

  static LocalTerms in_order(const std::vector<DeviceId>& members, const Parts& parts) {
    LocalTerms brought;
    for (const DeviceId member : members) brought.push_back(parts.at(member).values);
    return brought;
  }

  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<LocalMessageName, Value> messages_;
  std::map<LocalMessageName, std::shared_ptr<LocalTransfer>> transfers_;  // that one side knows
  std::map<LocalCollectiveName, Collective> collectives_;
  std::optional<Diagnostic> failure_;
};

}  // namespace rannc::runtime
