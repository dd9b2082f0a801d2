// Exchanges are timed over any transport, and a failure ends all devices. No test here knows how long anything takes.
#include "runtime/measure/measure_links.h"

#include <gtest/gtest.h>

#include "runtime/transport/transport_local.h"
#include "tests/runtime/transport/forwarding_transport.h"

namespace rannc::runtime {
namespace {

OpenEnd local(std::vector<std::unique_ptr<Transport>>& ends) {
  return [&ends](uint32_t device) -> Result<std::unique_ptr<Transport>> { return std::move(ends[device]); };
}

TEST(MeasureExchange, TimesEverySizeOfEveryKind) {
  for (const ExchangeKind kind : {ExchangeKind::kMessage, ExchangeKind::kAllReduce, ExchangeKind::kAllGather}) {
    for (const uint32_t devices : {2U, 3U}) {
      if (kind == ExchangeKind::kMessage && devices != 2) continue;
      auto ends = make_local_transports(devices, std::chrono::seconds(60));
      const auto times = measure_exchange({kind, devices, {4, 4096, 1 << 16}, 3}, local(ends));
      ASSERT_TRUE(times.ok()) << str(kind) << ": " << times.diagnostic().str();
      ASSERT_EQ(times->size(), 3U) << str(kind);
      for (const auto& [bytes, ns] : *times) EXPECT_GT(ns, 0) << str(kind) << " of " << bytes;
    }
  }
}

/// Fails at the third message.
class Broken final : public rannc::testing::ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;
  Result<void> send(const MessageKey& key, DeviceId to, Value value, SentValue sent) override {
    if (++sent_ == 3) return error("the cable is cut");
    return ForwardingTransport::send(key, to, std::move(value), sent);
  }

 private:
  int sent_ = 0;
};

TEST(MeasureExchange, TheFirstFailureEndsAllDevices) {
  auto ends = make_local_transports(3, std::chrono::seconds(60));
  ends[1] = std::make_unique<Broken>(std::move(ends[1]));
  const auto times = measure_exchange({ExchangeKind::kAllGather, 3, {4, 64}, 4}, local(ends));
  ASSERT_FALSE(times.ok());
  EXPECT_EQ(times.diagnostic().message, "the cable is cut");
}

}  // namespace
}  // namespace rannc::runtime
