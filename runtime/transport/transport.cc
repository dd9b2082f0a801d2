// Collectives of shares as messages between all pairs of members.
#include "runtime/transport/transport.h"

#include <fmt/format.h>

#include <algorithm>

namespace rannc::runtime {

namespace {

size_t position_of(DeviceId device, std::span<const DeviceId> members) {
  const auto position = static_cast<size_t>(std::find(members.begin(), members.end(), device) - members.begin());
  RANNC_CHECK(position < members.size()) << "a device takes part in the collectives that it is a member of";
  return position;
}

MessageKey message(const CollectiveKey& key, Direction direction, size_t value) {
  return {key.step, key.index, key.part, direction, static_cast<uint32_t>(value)};
}

bool empty(const Value& value) { return value->bytes() == 0; }

/// Receipts of the values of each member; null where nothing is sent.
using Receipts = std::vector<std::vector<std::unique_ptr<Receipt>>>;

/// Posts receives of `expected[i]` from member i.
Result<Receipts> post(Transport& transport, const CollectiveKey& key, Direction direction,
                      std::span<const DeviceId> members, const std::vector<const Values*>& expected) {
  Receipts receipts(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    receipts[i].resize(expected[i]->size());
    if (members[i] == transport.device()) continue;
    for (size_t k = 0; k < expected[i]->size(); ++k) {
      const Value& value = (*expected[i])[k];
      if (empty(value)) continue;
      RANNC_ASSIGN(receipts[i][k], transport.receive(message(key, direction, k), members[i], value->spec()));
    }
  }
  return receipts;
}

Result<void> send_all(Transport& transport, const CollectiveKey& key, Direction direction, DeviceId to,
                      const Values& values) {
  for (size_t k = 0; k < values.size(); ++k) {
    if (empty(values[k])) continue;
    RANNC_TRY(transport.send(message(key, direction, k), to, values[k], SentValue::kFreedWhenTaken));
  }
  return {};
}

/// Waits for a value, which may then be read on the compute stream.
Result<Value> arrived(Transport& transport, Receipt& receipt) {
  RANNC_ASSIGN(Arrived found, receipt.wait());
  transport.hardware().await(Stream::kCompute, found.ready);
  return std::move(found.value);
}

}  // namespace

std::string describe(const MessageKey& key) {
  switch (key.direction) {
    case Direction::kTerm:
      return fmt::format("its terms of the gradients of stage {}", key.route);
    case Direction::kPart:
      return fmt::format("its share of the parameters of stage {}", key.route);
    default:
      return fmt::format("the {} of route {}, micro-batch {}",
                         key.direction == Direction::kActivation ? "activation" : "gradient", key.route,
                         key.micro_batch);
  }
}

Result<Values> Transport::reduce_scatter(const CollectiveKey& key, std::span<const DeviceId> members,
                                         const std::vector<Values>& terms) {
  const size_t self = position_of(device(), members);
  const std::vector<const Values*> expected(members.size(), &terms[self]);
  RANNC_ASSIGN(const Receipts receipts, post(*this, key, Direction::kTerm, members, expected));
  for (size_t i = 0; i < members.size(); ++i) {
    if (i != self) RANNC_TRY(send_all(*this, key, Direction::kTerm, members[i], terms[i]));
  }
  Values sums;
  for (size_t k = 0; k < terms[self].size(); ++k) {
    Values all;
    for (size_t i = 0; i < members.size(); ++i) {
      if (receipts[i][k] == nullptr) {
        all.push_back(terms[self][k]);
      } else {
        RANNC_ASSIGN(Value term, arrived(*this, *receipts[i][k]));
        all.push_back(std::move(term));
      }
    }
    sums.push_back(empty(all[0]) ? all[0] : all[0]->sum(all));
  }
  return sums;
}

Result<void> Transport::all_gather(const CollectiveKey& key, std::span<const DeviceId> members,
                                   const std::vector<Values>& parts) {
  const size_t self = position_of(device(), members);
  std::vector<const Values*> expected;
  for (const Values& values : parts) expected.push_back(&values);
  RANNC_ASSIGN(const Receipts receipts, post(*this, key, Direction::kPart, members, expected));
  for (size_t i = 0; i < members.size(); ++i) {
    if (i != self) RANNC_TRY(send_all(*this, key, Direction::kPart, members[i], parts[self]));
  }
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t k = 0; k < receipts[i].size(); ++k) {
      if (receipts[i][k] == nullptr) continue;
      RANNC_ASSIGN(const Value value, arrived(*this, *receipts[i][k]));
      parts[i][k]->overwrite(*value);
    }
  }
  return {};
}

}  // namespace rannc::runtime
