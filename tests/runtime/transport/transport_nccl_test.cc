// Messages over NCCL's interface, between threads of this process over the test devices and a fake NCCL.
#include "runtime/transport/transport_nccl.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "runtime/device/devices.h"
#include "runtime/internal/torch_value.h"
#include "runtime/transport/internal/store.h"
#include "tests/runtime/transport/joined_ends.h"
#include "tests/support/test_device/fake_nccl.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::runtime {
namespace {

using rannc::testing::Joined;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::chrono::milliseconds kShort{300};

class TransportNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    rannc::testing::reset_test_device();
    rannc::testing::limit_fake_nccl({});
    for (const auto& device : devices_of(rannc::testing::test_device_plugin()))
      hardware_.push_back(device->with_own_streams());
  }
  void TearDown() override {
    rannc::testing::leave(joined_.ends);
    rannc::testing::limit_fake_nccl({});
    EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
  }

  void join(const Rendezvous& common) {
    joined_ = rannc::testing::join_each(
        common, [&](const Rendezvous& where) { return join_nccl(where, *hardware_[where.rank]); });
  }
  void join(uint32_t workers, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    Rendezvous common;
    common.workers = workers;
    common.timeout = timeout;
    join(common);
    ASSERT_THAT(joined_.failures, Each(IsEmpty()));
  }

  /// Runs `job` for each end in a thread of its own, as a user of the compute stream.
  void on_each(const std::function<void(Transport&)>& job) {
    rannc::testing::on_each(static_cast<uint32_t>(joined_.ends.size()), [&](uint32_t device) {
      const auto scope = hardware_[device]->enter(Stream::kCompute);
      job(*joined_.ends[device]);
    });
  }

  Joined joined_;
  std::vector<std::unique_ptr<Device>> hardware_;
};

const TensorSpec kFour{ir::DType::kF32, {4}};

MessageKey key_of(uint32_t micro_batch) { return {7, 3, micro_batch, Direction::kActivation}; }

Value numbers(Device& device, double first) {
  return device.upload(to_value(at::arange(first, first + 4, at::kFloat)));
}

/// The numbers received, once they have arrived.
Result<at::Tensor> taken(Device& device, Receipt& receipt) {
  RANNC_ASSIGN(const Arrived arrived, receipt.wait());
  device.await(Stream::kCompute, arrived.ready);
  return to_tensor(device.download(arrived.value));
}

/// Why a message cannot be received and used.
std::string why_not_received(Transport& end, DeviceId from, const TensorSpec& spec = kFour) {
  const auto receipt = end.receive(key_of(0), from, spec);
  if (!receipt.ok()) return receipt.diagnostic().str();
  const auto arrived = (*receipt)->wait();
  const auto flushed = end.flush();
  if (arrived.ok()) end.hardware().await(Stream::kCompute, arrived->ready);
  return flushed.ok() ? "" : flushed.diagnostic().str();
}

TEST_F(TransportNccl, MessagesKeepTheirOrder) {
  constexpr uint32_t kMessages = 20;
  join(3);
  on_each([](Transport& end) {
    Device& hardware = end.hardware();
    for (uint32_t i = 0; i < kMessages; ++i) {
      std::map<uint32_t, std::unique_ptr<Receipt>> receipts;
      for (uint32_t peer = 0; peer < 3; ++peer) {
        if (DeviceId(peer) != end.device()) receipts[peer] = end.receive(key_of(i), DeviceId(peer), kFour).value();
      }
      for (uint32_t peer = 0; peer < 3; ++peer) {
        if (DeviceId(peer) == end.device()) continue;
        const double first = 1000. * end.device().index() + 100. * peer + i;
        end.send(key_of(i), DeviceId(peer), numbers(hardware, first), SentValue::kHeldUntilAwaited).value();
      }
      for (const auto& [peer, receipt] : receipts) {
        const double first = 1000. * peer + 100. * end.device().index() + i;
        EXPECT_TRUE(at::equal(taken(hardware, *receipt).value(), at::arange(first, first + 4, at::kFloat)));
        end.await_sends(DeviceId(peer), 0).value();
      }
    }
    end.flush().value();
  });
}

/// Five messages each way. Both ends post theirs at once, in one order of all messages or the receives first. Returns
/// why an end failed; empty if none did.
std::string posted_at_once(Joined& joined, const std::vector<std::unique_ptr<Device>>& hardware, bool one_order) {
  constexpr uint32_t kMessages = 5;
  std::vector<std::string> failures(2);
  rannc::testing::on_each(2, [&](uint32_t own) {
    const auto scope = hardware[own]->enter(Stream::kCompute);
    Transport& end = *joined.ends[own];
    const DeviceId peer(1 - own);
    std::vector<std::unique_ptr<Receipt>> receipts;
    const auto post = [&](uint32_t i, bool sends) -> Result<void> {
      if (sends) return end.send(key_of(i), peer, numbers(end.hardware(), i), SentValue::kFreedWhenTaken);
      RANNC_ASSIGN(receipts.emplace_back(), end.receive(key_of(i), peer, kFour));
      return {};
    };
    const auto run = [&]() -> Result<void> {
      for (uint32_t k = 0; k < 2 * kMessages; ++k) {
        const bool sends = one_order ? k % 2 == own : k >= kMessages;
        RANNC_TRY(post(one_order ? k / 2 : k % kMessages, sends));
      }
      RANNC_TRY(end.flush());
      for (uint32_t i = 0; i < kMessages; ++i) {
        RANNC_ASSIGN(const at::Tensor found, taken(end.hardware(), *receipts[i]));
        EXPECT_TRUE(at::equal(found, at::arange(i, i + 4., at::kFloat)));
      }
      return {};
    };
    if (const Result<void> done = run(); !done.ok()) failures[own] = done.diagnostic().str();
  });
  return failures[0].empty() ? failures[1] : failures[0];
}

// Messages are posted long before their counterparts.
TEST_F(TransportNccl, OneOrderOfMessagesNeedsOneRunningKernel) {
  join(2);
  for (const bool launch_order : {true, false}) {
    rannc::testing::limit_fake_nccl({.resident = 1, .launch_order = launch_order});
    EXPECT_EQ(posted_at_once(joined_, hardware_, true), "");
  }
}

// Each end receives before it sends. That runs if a device has room for a kernel of each stream, and if a send may
// start before a receive that waits for an earlier one.
TEST_F(TransportNccl, OtherOrdersRunByLuck) {
  struct Case {
    rannc::testing::FakeNcclLimits limits;
    bool runs;
  };
  for (const Case& each :
       {Case{{.resident = 2, .launch_order = false}, true}, Case{{.resident = 1, .launch_order = false}, false},
        Case{{.resident = 8, .launch_order = true}, false}}) {
    SCOPED_TRACE(::testing::Message() << each.limits.resident << " kernels, launch order " << each.limits.launch_order);
    join(2, each.runs ? std::chrono::seconds(60) : kShort);
    rannc::testing::limit_fake_nccl(each.limits);
    const std::string failure = posted_at_once(joined_, hardware_, false);
    EXPECT_THAT(failure, each.runs ? ::testing::Matcher<std::string>(IsEmpty()) : HasSubstr(" ms for device "));
    rannc::testing::leave(joined_.ends);
  }
}

TEST_F(TransportNccl, EmptyMessagesNeedNoPeer) {
  join(2);
  on_each([](Transport& end) {
    const DeviceId peer(1 - end.device().index());
    const TensorSpec empty{ir::DType::kF32, {0, 4}};
    const auto receipt = end.receive(key_of(0), peer, empty).value();
    end.send(key_of(0), peer, end.hardware().allocate(empty), SentValue::kHeldUntilAwaited).value();
    EXPECT_EQ(taken(end.hardware(), *receipt).value().numel(), 0);
  });
}

TEST_F(TransportNccl, SumsOfHostValuesStayOnTheHost) {
  join(2);
  on_each([](Transport& end) {
    const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
    const Values own = {to_value(at::full({2}, 1 + end.device().index(), at::kLong)), numbers(end.hardware(), 1)};
    const Values sums = end.all_reduce({}, members, own).value();
    EXPECT_TRUE(at::equal(to_tensor(sums[0]), at::full({2}, 3, at::kLong)));
    EXPECT_FALSE(to_tensor(sums[1]).is_cpu());
    EXPECT_TRUE(at::equal(to_tensor(end.hardware().download(sums[1])), at::arange(2, 10, 2, at::kFloat)));
  });
}

TEST_F(TransportNccl, OnlyPairsOfThePlanAreConnected) {
  Rendezvous common;
  common.workers = 3;
  common.pairs = {{DeviceId(1), DeviceId(2)}, {DeviceId(0), DeviceId(1)}};
  join(common);
  ASSERT_THAT(joined_.failures, Each(IsEmpty()));
  on_each([](Transport& end) {
    const DeviceId next(end.device().index() + 1), previous(end.device().index() - 1);
    if (next.index() < 3) {
      EXPECT_TRUE(end.send(key_of(0), next, numbers(end.hardware(), 0), SentValue::kHeldUntilAwaited).ok());
    }
    if (end.device() != DeviceId(0)) {
      EXPECT_TRUE(taken(end.hardware(), *end.receive(key_of(0), previous, kFour).value()).ok());
      const auto sent = end.send(key_of(1), DeviceId(0), numbers(end.hardware(), 0), SentValue::kHeldUntilAwaited);
      EXPECT_THAT(sent.diagnostic().str(), HasSubstr("the activation of route 3, micro-batch 1 of step 7 goes from "
                                                     "device " +
                                                     std::to_string(end.device().index()) + " to device 0"));
    }
    end.flush().value();
  });
}

// --- failures

TEST_F(TransportNccl, JoinNeedsADeviceWithNccl) {
  const auto end = join_nccl({}, cpu());
  ASSERT_FALSE(end.ok());
  EXPECT_THAT(end.diagnostic().str(), HasSubstr("transport nccl needs GPUs: give --device cuda"));
}

TEST_F(TransportNccl, LimitsTheWaitForAMessage) {
  join(2, kShort);
  on_each([](Transport& end) {
    if (end.device() == DeviceId(1)) {
      while (!end.failure()) std::this_thread::yield();
      EXPECT_THAT(end.failure()->str(), HasSubstr("device 1 to send the activation of route 3"));
      return;
    }
    EXPECT_THAT(
        why_not_received(end, DeviceId(1)),
        AllOf(HasSubstr("waited "), HasSubstr(" ms for device 1 to send the activation of route 3, micro-batch 0 "
                                              "of step 7")));
  });
}

// The host waits in a call of the device that only an abort ends.
TEST_F(TransportNccl, LimitsTheWaitInACallOfTheDevice) {
  join(2, kShort);
  on_each([](Transport& end) {
    if (end.device() == DeviceId(1)) return;
    const auto receipt = end.receive(key_of(0), DeviceId(1), kFour).value();
    (void)taken(end.hardware(), *receipt);
    EXPECT_THAT(end.flush().diagnostic().str(), HasSubstr("device 1 to send the activation of route 3"));
  });
}

TEST_F(TransportNccl, LimitsTheWaitForAReceiver) {
  join(2, kShort);
  on_each([](Transport& end) {
    if (end.device() == DeviceId(1)) return;
    end.send(key_of(2), DeviceId(1), numbers(end.hardware(), 0), SentValue::kHeldUntilAwaited).value();
    EXPECT_THAT(end.flush().diagnostic().str(),
                HasSubstr("ms for device 1 to take the activation of route 3, micro-batch 2 of step 7"));
  });
}

TEST_F(TransportNccl, LimitsTheWaitForMembersOfASum) {
  join(2, kShort);
  on_each([](Transport& end) {
    if (end.device() == DeviceId(1)) return;
    const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
    (void)end.all_reduce({}, members, {numbers(end.hardware(), 0)});
    EXPECT_THAT(end.flush().diagnostic().str(), HasSubstr("ms for all members of a sum over devices"));
  });
}

TEST_F(TransportNccl, WhyOneFailsIsWhatTheOthersHear) {
  join(3);
  on_each([](Transport& end) {
    if (end.device() == DeviceId(1)) return end.abort(error("the disk is full"));
    const auto reason = why_not_received(end, DeviceId(1));
    EXPECT_THAT(reason, HasSubstr("the disk is full"));
    const auto sent = end.send(key_of(0), DeviceId(1), numbers(end.hardware(), 0), SentValue::kHeldUntilAwaited);
    EXPECT_THAT(sent.diagnostic().str(), HasSubstr("the disk is full"));
  });
}

TEST_F(TransportNccl, TheFirstErrorWins) {
  join(2);
  joined_.ends[0]->abort(error("the disk is full"));
  joined_.ends[1]->abort(error("the network is down"));
  for (const auto& end : joined_.ends) EXPECT_THAT(end->failure()->str(), HasSubstr("the disk is full"));
}

TEST_F(TransportNccl, AnErrorOfNcclNamesTheMessage) {
  join(2);
  on_each([](Transport& end) {
    const DeviceId peer(1 - end.device().index());
    std::string reason;
    if (end.device() == DeviceId(0)) {
      const auto sent = end.send(key_of(0), peer, numbers(end.hardware(), 0), SentValue::kHeldUntilAwaited);
      const auto flushed = end.flush();
      ASSERT_FALSE(flushed.ok());
      reason = flushed.diagnostic().str();
    } else {
      reason = why_not_received(end, peer, {ir::DType::kF32, {8}});
    }
    EXPECT_THAT(reason, AllOf(HasSubstr("NCCL failed while waiting for device "),
                              HasSubstr("the activation of route 3, micro-batch 0 of step 7"),
                              HasSubstr("a message of 16 bytes was received as 32 bytes")));
  });
}

// Noticed while the host waits for the device.
TEST_F(TransportNccl, AnErrorThatNoCallReturnsEndsTheRun) {
  join(2);
  on_each([](Transport& end) {
    if (end.device() == DeviceId(1)) return;
    const auto receipt = end.receive(key_of(0), DeviceId(1), kFour).value();
    rannc::testing::fail_fake_nccl("the network is down");
    (void)taken(end.hardware(), *receipt);
    EXPECT_THAT(end.failure()->str(),
                HasSubstr("NCCL failed while waiting for device 1 to send the activation of route "
                          "3, micro-batch 0 of step 7: remote error: the network is down"));
  });
}

// The peer has come to the store and goes without a word.
TEST_F(TransportNccl, APeerThatEndsWhileJoiningIsNamed) {
  Rendezvous common;
  common.workers = 2;
  joined_ = rannc::testing::join_each(common, [&](const Rendezvous& where) -> Result<std::unique_ptr<Transport>> {
    if (where.rank == 0) return join_nccl(where, *hardware_[0]);
    const auto client = StoreClient::join(where, where.port);
    while (client.ok() && (*client)->get("nccl/0-1").value() == std::nullopt) continue;
    return error("gone");
  });
  EXPECT_THAT(joined_.failures[0], AllOf(HasSubstr("worker 0 of 2 could not join"), HasSubstr("worker 1")));
}

TEST_F(TransportNccl, AWorkerThatNeverComesIsNamed) {
  Rendezvous common;
  common.workers = 2;
  common.timeout = kShort;
  joined_ = rannc::testing::join_each(common, [&](const Rendezvous& where) -> Result<std::unique_ptr<Transport>> {
    if (where.rank == 0) return join_nccl(where, *hardware_[0]);
    return error("never comes");
  });
  EXPECT_THAT(joined_.failures[0], HasSubstr("nothing was heard from worker 1"));
}

// One worker selected another transport.
TEST_F(TransportNccl, AWorkerWithoutNcclEndsTheWaitOfTheOthers) {
  Rendezvous common;
  common.workers = 2;
  common.timeout = kShort;
  joined_ = rannc::testing::join_each(common, [&](const Rendezvous& where) -> Result<std::unique_ptr<Transport>> {
    return join_nccl(where, where.rank == 0 ? *hardware_[0] : cpu());
  });
  EXPECT_THAT(joined_.failures[0], HasSubstr("nothing was heard from worker 1"));
  EXPECT_THAT(joined_.failures[1], HasSubstr("give --device cuda (the device of worker 1 is cpu)"));
}

}  // namespace
}  // namespace rannc::runtime
