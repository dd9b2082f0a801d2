/// Values that threads of one process pass by reference.
#pragma once

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/execute/now.h"
#include "runtime/transport/internal/local_run.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

using LocalMessageName = std::tuple<DeviceId, DeviceId, MessageKey>;  // from, to
using LocalCollectiveName = std::pair<CollectiveKey, std::vector<DeviceId>>;

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
class LocalExchange final : public LocalRun {
 public:
  using LocalRun::LocalRun;

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

  /// The last member to come adds the values of all in the order of `members`, so that the results are bit-identical.
  Result<void> add(const LocalCollectiveName& name, DeviceId self, std::vector<Values> brought) {
    std::unique_lock lock(mutex_);
    if (failure_) return *failure_;
    Collective& collective = collectives_[name];
    collective.parts[self] = std::move(brought);
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

  /// Brings a member's values, passes those of all to `read` in the order of the members, and returns once all have
  /// read them.
  template <class Read>
  Result<void> read_all(const LocalCollectiveName& name, DeviceId self, std::vector<Values> brought, Read&& read) {
    const size_t members = name.second.size();
    std::unique_lock lock(mutex_);
    if (failure_) return *failure_;
    Collective& collective = collectives_[name];
    collective.parts[self] = std::move(brought);
    changed_.notify_all();
    RANNC_TRY(await(
        lock, [&] { return collective.parts.size() == members; }, kAllMembers));
    const LocalTerms all = in_order(name.second, collective.parts);
    lock.unlock();
    read(all);
    lock.lock();
    collective.done = ++collective.readers == members;
    changed_.notify_all();
    RANNC_TRY(await(
        lock, [&] { return collective.done; }, kAllMembers));
    fetched(name);
    return {};
  }

  /// A member leaves its result.
  void forget(const LocalCollectiveName& name) {
    const std::lock_guard lock(mutex_);
    fetched(name);
  }

 private:
  static constexpr const char* kAllMembers = "all members of a collective";
  using Parts = std::map<DeviceId, std::vector<Values>>;
  struct Collective {
    Parts parts;
    std::vector<Values> totals;
    int64_t finished_ns = 0;
    bool done = false;
    size_t readers = 0, fetched = 0;
  };

  void forget_messages() override { messages_.clear(); }

  /// Requires the lock.
  void fetched(const LocalCollectiveName& name) {
    if (++collectives_[name].fetched == name.second.size()) collectives_.erase(name);
  }

  static std::string awaited(const LocalMessageName& name) {
    return fmt::format("device {} to send {}", std::get<0>(name).index(), describe(std::get<2>(name)));
  }

  static LocalTerms in_order(const std::vector<DeviceId>& members, const Parts& parts) {
    LocalTerms brought;
    for (const DeviceId member : members) brought.push_back(parts.at(member));
    return brought;
  }

  std::map<LocalMessageName, Value> messages_;
  std::map<LocalCollectiveName, Collective> collectives_;
};

}  // namespace rannc::runtime
