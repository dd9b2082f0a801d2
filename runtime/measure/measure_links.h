/// Times what devices exchange over a transport.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/transport/transport.h"

namespace rannc::runtime {

enum class ExchangeKind : uint8_t {
  kMessage,    ///< one value from a device to another: half a round trip; two devices
  kAllReduce,  ///< every device brings so many bytes and gets the sum
  kAllGather,  ///< every device brings so many bytes and gets those of all, sent directly
};

/// `message`, `all-reduce`, `all-gather`.
std::string str(ExchangeKind kind);

/// Opens one device's end; called in the thread that uses it, once per device.
using OpenEnd = std::function<Result<std::unique_ptr<Transport>>(uint32_t device)>;

/// What is exchanged.
struct ExchangePlan {
  ExchangeKind kind = ExchangeKind::kMessage;
  uint32_t devices = 2;
  std::vector<uint64_t> bytes;  ///< each at least 4: values are 32-bit floats
  uint32_t repeat = 5;          ///< exchanges of each size that count; one more before them does not
};

/// Nanoseconds by bytes, medians of what device 0 sees, each exchange after a barrier. Every device is a thread here.
/// The first error of a device ends all of them and is returned.
Result<std::map<uint64_t, double>> measure_exchange(const ExchangePlan& plan, const OpenEnd& open);

}  // namespace rannc::runtime
