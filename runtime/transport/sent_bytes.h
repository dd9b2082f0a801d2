/// Counts the bytes that a device sends to others.
#pragma once

#include <cstdint>
#include <map>

#include "ir/base/ids.h"

namespace rannc::runtime {

/// Bytes from one device to another. Terms of sums over devices, and shares of replicas, are not messages of the
/// schedule.
struct SentBytes {
  uint64_t messages = 0, sums = 0;

  SentBytes& operator+=(const SentBytes& other) {
    messages += other.messages;
    sums += other.sums;
    return *this;
  }
  SentBytes operator-(const SentBytes& before) const { return {messages - before.messages, sums - before.sums}; }
  bool operator==(const SentBytes&) const = default;
};

/// By receiver.
using SentByPeer = std::map<DeviceId, SentBytes>;

}  // namespace rannc::runtime
