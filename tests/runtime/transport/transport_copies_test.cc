// What copies between the memories of devices wait for.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/internal/torch_value.h"
#include "tests/runtime/transport/summed_terms.h"

namespace rannc::runtime {
namespace {

using Kind = CollectiveKey::Kind;

constexpr std::chrono::milliseconds kShort{200};
const TensorSpec kSpec{ir::DType::kF32, {64}};

/// Devices of one process, each a test device of its own. Their hosts are this thread.
class TransportCopies : public ::testing::Test {
 protected:
  void SetUp() override {
    rannc::testing::reset_test_device();
    open(std::chrono::seconds(60));
  }
  void TearDown() override {
    rannc::testing::reset_test_device();
    kept_.clear();
    ends_.clear();
    EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
  }

  void open(std::chrono::milliseconds timeout) {
    ends_.clear();
    hardware_.clear();
    std::vector<Device*> devices;
    for (const auto& kind : devices_of(rannc::testing::test_device_plugin())) {
      hardware_.push_back(kind->with_own_streams());
      devices.push_back(hardware_.back().get());
    }
    ends_ = find_transport("local")->open(devices, timeout);
  }

  Transport& end(uint32_t device) { return *ends_[device]; }

  /// Lives until all work is done, so that only what reads it needs an order.
  Value kept(Value value) { return kept_.emplace_back(std::move(value)); }
  Value ones(uint32_t device) { return kept(hardware_[device]->upload(to_value(at::ones({64})))); }

  /// Work of a device's compute stream.
  Value work(uint32_t device) {
    const auto scope = hardware_[device]->enter(Stream::kCompute);
    return kept(to_value(to_tensor(ones(device)).add(1)));
  }

  std::unique_ptr<Receipt> receive(uint32_t device, uint32_t from, uint32_t number = 0) {
    return end(device).receive({1, 0, number}, DeviceId(from), kSpec).value();
  }
  void send(uint32_t device, uint32_t to, const Value& value, uint32_t number = 0) {
    ASSERT_TRUE(end(device).send({1, 0, number}, DeviceId(to), value, SentValue::kFreedWhenTaken).ok());
  }
  EventRef ready(Receipt& receipt) {
    const Arrived arrived = receipt.wait().value();
    kept(arrived.value);
    return arrived.ready;
  }

  /// Whether an event is after the work of which `made` is the result, on `device`: else a stream that waits for the
  /// event must not touch it.
  bool follows(const EventRef& event, const Value& made, uint32_t device) {
    const auto other = hardware_[device]->with_own_streams();
    other->await(Stream::kCompute, event);
    const auto scope = other->enter(Stream::kCompute);
    try {
      kept(to_value(to_tensor(made).add(1)));
    } catch (const c10::Error&) {
      return false;
    }
    return true;
  }

  std::vector<std::unique_ptr<Device>> hardware_;
  testing::Ends ends_;

 private:
  std::vector<Value> kept_;
};

TEST_F(TransportCopies, FollowTheValueThatIsSent) {
  for (const uint32_t sends_late : {0, 1}) {
    std::unique_ptr<Receipt> receipt;
    if (sends_late == 1) receipt = receive(1, 0, sends_late);
    const Value value = work(0);
    send(0, 1, value, sends_late);
    if (sends_late == 0) receipt = receive(1, 0, sends_late);
    EXPECT_TRUE(follows(ready(*receipt), value, 0)) << sends_late;
  }
}

// Whichever side comes last, and enqueues the copy.
TEST_F(TransportCopies, DoNotWaitForThoseOfOtherSenders) {
  for (const uint32_t sends_late : {0, 1}) {
    std::unique_ptr<Receipt> of_0, of_2;
    if (sends_late == 1) of_0 = receive(1, 0, sends_late), of_2 = receive(1, 2, sends_late);
    const Value value = work(0);
    send(0, 1, value, sends_late);
    send(2, 1, ones(2), sends_late);
    if (sends_late == 0) of_0 = receive(1, 0, sends_late), of_2 = receive(1, 2, sends_late);
    EXPECT_FALSE(follows(ready(*of_2), value, 0)) << sends_late;
    EXPECT_TRUE(follows(ready(*of_0), value, 0)) << sends_late;
  }
}

TEST_F(TransportCopies, DoNotWaitForThoseToOtherReceivers) {
  for (const uint32_t sends_late : {0, 1}) {
    std::unique_ptr<Receipt> of_1, of_2;
    const Value busy = work(1);
    if (sends_late == 1) of_1 = receive(1, 0, sends_late), of_2 = receive(2, 0, sends_late);
    send(0, 1, ones(0), sends_late);
    send(0, 2, ones(0), sends_late);
    if (sends_late == 0) of_1 = receive(1, 0, sends_late), of_2 = receive(2, 0, sends_late);
    EXPECT_FALSE(follows(ready(*of_2), busy, 1)) << sends_late;
    EXPECT_TRUE(follows(ready(*of_1), busy, 1)) << sends_late;
  }
}

TEST_F(TransportCopies, DoNotWaitForThoseOfTheOtherDirection) {
  for (const uint32_t sends_late : {0, 1}) {
    const auto back = receive(0, 1, sends_late);
    std::unique_ptr<Receipt> there;
    if (sends_late == 1) there = receive(1, 0, sends_late);
    const Value answer = ones(1);
    const Value value = work(0);
    send(0, 1, value, sends_late);
    if (sends_late == 0) there = receive(1, 0, sends_late);
    send(1, 0, answer, sends_late);
    EXPECT_FALSE(follows(ready(*back), value, 0)) << sends_late;
    EXPECT_TRUE(follows(ready(*there), value, 0)) << sends_late;
  }
}

// Neither does a sum wait for work that a member enqueues after its begin, nor other messages for the sum.
TEST_F(TransportCopies, OfSumsRunBesideComputations) {
  const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
  std::vector<Value> later;
  std::vector<std::unique_ptr<PendingSum>> sums;
  const Value early = work(0);
  for (const uint32_t device : {0U, 1U}) {
    sums.push_back(end(device).begin_all_reduce({1, Kind::kAllReduce}, members, {ones(device)}).value());
    later.push_back(work(device));
  }
  const Value sum = kept(sums[1]->wait().value()[0]);
  EXPECT_TRUE(follows(hardware_[1]->record(Stream::kCompute), early, 0));
  EXPECT_FALSE(follows(hardware_[1]->record(Stream::kCompute), later[0], 0));
  EXPECT_TRUE(at::equal(to_tensor(hardware_[1]->download(sum)), at::full({64}, 2.F)));
  ASSERT_TRUE(sums[0]->wait().ok());
}

// Device 0 sends a term that device 2 takes late, because device 2 first awaits a term of device 3.
TEST_F(TransportCopies, OfSumsWithinPassesWaitForNoOtherSums) {
  const auto begin = [&](uint32_t device, std::vector<DeviceId> members, uint32_t part) {
    return end(device).begin_all_reduce({1, Kind::kAllReduce, 0, part}, members, {ones(device)}).value();
  };
  const DeviceId d0(0), d1(1), d2(2), d3(3);
  const Value late = work(3);
  std::vector<std::unique_ptr<PendingSum>> sums;
  for (const uint32_t part : {0U, 1U}) {
    sums.push_back(begin(2, {d2, d3}, part));
    sums.push_back(begin(3, {d2, d3}, part));
  }
  sums.push_back(begin(0, {d0, d2}, 2));
  sums.push_back(begin(2, {d0, d2}, 2));
  ASSERT_TRUE(sums.back()->wait().ok());
  testing::on_each(2, [&](uint32_t device) {
    const auto scope = hardware_[device]->enter(Stream::kCompute);
    const Value term = hardware_[device]->upload(to_value(at::ones({64})));
    ASSERT_TRUE(end(device).all_reduce({1, Kind::kWithinPass}, {{d0, d1}}, {term}).ok());
  });
  EXPECT_FALSE(follows(hardware_[1]->record(Stream::kCompute), late, 3));
  EXPECT_TRUE(follows(hardware_[2]->record(Stream::kCompute), late, 3));
  sums.pop_back();
  for (const auto& sum : sums) EXPECT_TRUE(sum->wait().ok());
}

// The member's own term comes late, and it sends none.
TEST_F(TransportCopies, OfSumsAddAfterTheMembersOwnTerm) {
  const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
  const auto nothing = [&](uint32_t device) { return ones(device)->elements(0, 0); };
  const Value own = work(0);
  const auto sum = end(0).begin_reduce_scatter({1, Kind::kReduceScatter}, members, {{own}, {nothing(0)}}).value();
  const auto other = end(1).begin_reduce_scatter({1, Kind::kReduceScatter}, members, {{ones(1)}, {nothing(1)}}).value();
  const auto found = sum->wait();
  ASSERT_TRUE(found.ok()) << found.diagnostic().str();
  EXPECT_TRUE(at::equal(to_tensor(hardware_[0]->download(found->at(0))), at::full({64}, 3.F)));
  const auto nothing_found = other->wait();
  ASSERT_TRUE(nothing_found.ok()) << nothing_found.diagnostic().str();
}

// Each member adds a part, and no term goes to all.
TEST_F(TransportCopies, OfSumsMoveEachByteTwice) {
  constexpr uint32_t kDevices = 4;
  constexpr int64_t kSize = 100'000;
  const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  testing::on_each(kDevices, [&](uint32_t device) {
    const auto scope = hardware_[device]->enter(Stream::kCompute);
    const Value term = hardware_[device]->upload(to_value(at::ones({kSize})));
    ASSERT_TRUE(end(device).all_reduce({1, Kind::kOther}, members, {term}).ok());
    ASSERT_TRUE(end(device).flush().ok());
  });
  uint64_t bytes = 0;
  for (uint32_t device = 0; device < kDevices; ++device) {
    for (const auto& [peer, sent] : end(device).sent_bytes()) bytes += sent.sums;
  }
  EXPECT_EQ(bytes, 2 * (kDevices - 1) * kSize * sizeof(float));
}

TEST_F(TransportCopies, OfHostMemoryStayThere) {
  const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
  testing::on_each(2, [&](uint32_t device) {
    const auto scope = hardware_[device]->enter(Stream::kCompute);
    const auto sums = end(device).all_reduce({1, Kind::kOther}, members, {to_value(at::ones({3}))});
    ASSERT_TRUE(sums.ok()) << sums.diagnostic().str();
    EXPECT_TRUE(to_tensor(sums->at(0)).equal(at::full({3}, 2.F)));
  });
}

TEST_F(TransportCopies, AreLimitedByTheTimeOut) {
  open(kShort);
  const auto received = receive(1, 0)->wait();
  ASSERT_FALSE(received.ok());
  EXPECT_THAT(received.diagnostic().str(), ::testing::HasSubstr("waited 200 ms for device 0 to send"));
  send(0, 1, ones(0), 7);
  const auto flushed = end(0).flush();
  ASSERT_FALSE(flushed.ok());
  EXPECT_THAT(flushed.diagnostic().str(), ::testing::HasSubstr("waited 200 ms for device 1 to take a message"));
  const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
  const auto sum = end(0).begin_all_reduce({1, Kind::kAllReduce}, members, {ones(0)}).value()->wait();
  ASSERT_FALSE(sum.ok());
  EXPECT_THAT(sum.diagnostic().str(), ::testing::HasSubstr("a sum over devices"));
}

// A device has 32 streams of high priority.
TEST_F(TransportCopies, ShareStreamsWhereNoneIsLeft) {
  constexpr uint32_t kDevices = 12;
  ends_.clear();
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> each;
  for (uint32_t device = 0; device < kDevices; ++device) {
    devices.push_back(hardware_[0]->with_own_streams());
    each.push_back(devices.back().get());
  }
  ends_ = find_transport("local")->open(each, std::chrono::seconds(60));
  testing::on_each(kDevices, [&](uint32_t device) {
    const auto scope = each[device]->enter(Stream::kCompute);
    std::vector<std::unique_ptr<Receipt>> receipts;
    for (uint32_t peer = 0; peer < kDevices; ++peer) {
      if (peer == device) continue;
      receipts.push_back(end(device).receive({1, 0, 0}, DeviceId(peer), {ir::DType::kF32, {1}}).value());
      const Value value = each[device]->upload(to_value(at::full({1}, 1.F + static_cast<float>(device))));
      ASSERT_TRUE(end(device).send({1, 0, 0}, DeviceId(peer), value, SentValue::kFreedWhenTaken).ok());
    }
    float total = 1 + static_cast<float>(device);
    for (const auto& receipt : receipts) {
      const Arrived arrived = receipt->wait().value();
      each[device]->await(Stream::kCompute, arrived.ready);
      total += to_tensor(each[device]->download(arrived.value)).item<float>();
    }
    EXPECT_EQ(total, kDevices * (kDevices + 1) / 2);
    ASSERT_TRUE(end(device).flush().ok());
  });
  ends_.clear();
}

// A thread awaits the first sum, while the other device copies a term of the second.
TEST_F(TransportCopies, OfSumsEndWithTheTransport) {
  const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
  const auto begin = [&](uint32_t device, uint32_t part) {
    const Value term = hardware_[device]->upload(to_value(at::ones({64})));
    return end(device).begin_all_reduce({1, Kind::kAllReduce, 0, part}, members, {term}).value();
  };
  begin(0, 0).reset();
  begin(0, 1).reset();
  begin(1, 1).reset();
  ends_.clear();
  EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
}

TEST_F(TransportCopies, OfOneNameAreReceivedOnce) {
  const auto first = receive(1, 0);
  const auto second = end(1).receive({1, 0, 0}, DeviceId(0), kSpec);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.diagnostic().str(), ::testing::HasSubstr("received twice: the activation of route 0"));
}

// What a device leaves behind is not written any more.
TEST_F(TransportCopies, EndWithOneOfTheirSides) {
  receive(1, 0).reset();
  send(0, 1, ones(0));
  ends_[2].reset();
  receive(1, 2).reset();
  end(0).abort(error("the step is over"));
  EXPECT_FALSE(end(1).flush().ok());
  ends_.clear();
  EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
}

}  // namespace
}  // namespace rannc::runtime
