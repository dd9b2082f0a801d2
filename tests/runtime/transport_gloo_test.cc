// Several devices of one process may join over Gloo, each in a thread of its own, as rannc-profile's exchanges do.
#include "runtime/transport_gloo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/measure_links.h"
#include "tools/launcher.h"

namespace rannc::runtime {
namespace {

// LibTorch's records of collectives are one per process and not locked for new groups: without a lock of our own
// this loop crashed or hung in one run of three.
TEST(TransportGloo, GroupsOfOneProcessMayStartTogether) {
  for (int round = 0; round < 8; ++round) {
    Rendezvous where;
    auto meeting = tools::Listener::open();
    ASSERT_TRUE(meeting.ok()) << meeting.diagnostic().str();
    where.port = meeting->port();
    where.workers = 4;
    const auto times = measure_exchange({ExchangeKind::kAllReduce, where.workers, {4}, 1}, [&](uint32_t device) {
      Rendezvous own = where;
      own.rank = device;
      if (device == 0) own.listening_socket = meeting->release();
      return join_gloo(own);
    });
    ASSERT_TRUE(times.ok()) << "round " << round << ": " << times.diagnostic().str();
    EXPECT_EQ(times->size(), 1U);
  }
}

// Also where the failing worker serves the store and leaves at once.
TEST(TransportGloo, WhyOneFailsIsWhatTheOthersHear) {
  for (const uint32_t failing : {0U, 1U}) {
    SCOPED_TRACE(failing);
    auto meeting = tools::Listener::open();
    ASSERT_TRUE(meeting.ok()) << meeting.diagnostic().str();
    std::string heard;
    const auto work = [&](uint32_t device) {
      Rendezvous own;
      own.port = meeting->port();
      own.workers = 2;
      own.rank = device;
      if (device == 0) own.listening_socket = meeting->release();
      auto end = join_gloo(own);
      ASSERT_TRUE(end.ok()) << end.diagnostic().str();
      if (device == failing) return (*end)->abort(error("the disk is full"));
      const auto receipt = (*end)->receive({}, DeviceId(failing), {ir::DType::kF32, {1}});
      const auto value = receipt.ok() ? (*receipt)->wait() : Result<Value>(receipt.diagnostic());
      ASSERT_FALSE(value.ok());
      heard = value.diagnostic().str();
    };
    {
      const std::jthread other(work, 1);
      work(0);
    }
    EXPECT_THAT(heard, testing::HasSubstr("the disk is full"));
  }
}

}  // namespace
}  // namespace rannc::runtime
