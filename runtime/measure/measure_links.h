/// Measures the time of exchanges over a transport.
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
  kMessage,    ///< one value from a device to another (half a round trip); two devices
  kAllReduce,  ///< every device contributes `bytes` and receives the sum
  kAllGather,  ///< every device sends `bytes` directly to each other device
};

/// `message`, `all-reduce`, `all-gather`.
std::string str(ExchangeKind kind);

/// Opens one device's endpoint. Called once per device, on the thread that uses it.
using OpenEnd = std::function<Result<std::unique_ptr<Transport>>(uint32_t device)>;

/// Parameters of a measurement.
struct ExchangePlan {
  ExchangeKind kind = ExchangeKind::kMessage;
  uint32_t devices = 2;
  std::vector<uint64_t> bytes;  ///< each at least 4: values are 32-bit floats
  uint32_t repeat = 5;          ///< counted exchanges per size, after one warm-up exchange
};

/// Returns nanoseconds by bytes: medians of the times at device 0, with a barrier before each exchange. Runs every
/// device as a thread of this process. The first error of a device ends all of them and is returned.
Result<std::map<uint64_t, double>> measure_exchange(const ExchangePlan& plan, const OpenEnd& open);

}  // namespace rannc::runtime
