/// Messages on one device between the actions that produce and consume them.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <utility>

#include "ir/base/diagnostic.h"
#include "runtime/transport/transport.h"

namespace rannc::runtime {

/// One message of a route. Its samples are those that this device shares with `peer`.
struct Slot {
  Direction direction = Direction::kActivation;
  uint32_t route = 0;
  uint32_t micro_batch = 0;
  DeviceId peer;
  auto operator<=>(const Slot&) const = default;
};

/// Each slot is filled once and emptied once, so a value lives exactly from its production to its last use.
class Mailbox {
 public:
  void put(const Slot& slot, Value value) {
    bytes_ += value->bytes();
    RANNC_CHECK(values_.emplace(slot, std::move(value)).second) << "a message is made once";
  }
  Value take(const Slot& slot) {
    const auto it = values_.find(slot);
    RANNC_CHECK(it != values_.end()) << "the schedule was verified: a message is made before it is taken";
    Value value = std::move(it->second);
    values_.erase(it);
    bytes_ -= value->bytes();
    return value;
  }
  void expect(const Slot& slot, std::unique_ptr<Receipt> receipt) {
    RANNC_CHECK(receipts_.emplace(slot, std::move(receipt)).second) << "a receive is posted once";
  }
  std::unique_ptr<Receipt> arrival(const Slot& slot) {
    const auto it = receipts_.find(slot);
    RANNC_CHECK(it != receipts_.end()) << "the schedule was verified: a receive is posted before its value is read";
    std::unique_ptr<Receipt> receipt = std::move(it->second);
    receipts_.erase(it);
    return receipt;
  }
  /// Bytes of the stored values. Values in transit are not counted.
  uint64_t bytes() const { return bytes_; }
  bool empty() const { return values_.empty() && receipts_.empty(); }
  void clear() {
    values_.clear();
    receipts_.clear();
    bytes_ = 0;
  }

 private:
  std::map<Slot, Value> values_;
  std::map<Slot, std::unique_ptr<Receipt>> receipts_;
  uint64_t bytes_ = 0;
};

}  // namespace rannc::runtime
