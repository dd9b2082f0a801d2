// Sums that run while devices compute have the bits of blocking ones, make progress, and end like them.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <random>
#include <thread>

#include "runtime/internal/torch_value.h"
#include "tests/runtime/transport/slow_link.h"
#include "tests/runtime/transport/summed_terms.h"

namespace rannc::runtime {
namespace {

using Kind = CollectiveKey::Kind;
using testing::Ends;
using testing::expected;
using ::testing::HasSubstr;
using testing::SumsCase;
using testing::term;

constexpr std::chrono::milliseconds kShort{300};
constexpr int64_t kLarge = 1'000'003;  // more than any buffer on the way holds
const std::vector<DeviceId> kBoth = {DeviceId(0), DeviceId(1)};

const TransportKind kTwoHosts{.name = "two_hosts", .join = testing::join_two_hosts};

std::vector<SumsCase> cases() {
  std::vector<SumsCase> all = testing::sums_cases();
  all.push_back({"two_hosts", &kTwoHosts, false});
  return all;
}

class BegunSums : public testing::SumsTest {
 protected:
  /// Runs `job` for each end in a thread of its own, as a user of the compute stream.
  static void on_each(const Ends& ends, const std::function<void(Transport&)>& job) {
    testing::on_each(static_cast<uint32_t>(ends.size()), [&](uint32_t device) {
      const auto scope = ends[device]->hardware().enter(Stream::kCompute);
      job(*ends[device]);
    });
  }
  /// Whether sums are moved by threads of the host, without the device's.
  static bool in_background() {
    const TransportKind& kind = *GetParam().transport;
    return !kind.needs_nccl && (kind.between_processes() || GetParam().on_test_devices);
  }
};

// Test devices run the additions of a sum over NCCL when they are enqueued, which waits for the terms.
#define SKIP_IF_BEGIN_BLOCKS() \
  if (GetParam().transport->needs_nccl) GTEST_SKIP() << "test devices add when a sum begins"

Value own_term(Transport& end, int64_t size, at::ScalarType type = at::kFloat) {
  return end.hardware().upload(to_value(term(type, size, end.device().index())));
}

std::unique_ptr<PendingSum> begin(Transport& end, uint32_t part, int64_t size,
                                  const std::vector<DeviceId>& members = kBoth) {
  return end.begin_all_reduce({1, Kind::kAllReduce, 0, part}, members, {own_term(end, size)}).value();
}

void expect_sum(Transport& end, PendingSum& sum, int64_t size, const std::vector<DeviceId>& members = kBoth) {
  const auto found = sum.wait();
  ASSERT_TRUE(found.ok()) << found.diagnostic().str();
  EXPECT_TRUE(at::equal(to_tensor(end.hardware().download((*found)[0])), expected(members, at::kFloat, size)));
}

/// One sum of a step, in the order of all its members.
struct Planned {
  std::vector<DeviceId> members;
  at::ScalarType type;
  int64_t size;
  bool scattered;
};

std::vector<Planned> planned_sums(std::mt19937& random, size_t count) {
  const std::vector<std::vector<uint32_t>> sets = {{0, 1, 2}, {1, 2}, {0, 2}, {0, 1}, {2, 1, 0}};
  const at::ScalarType types[] = {at::kFloat, at::kDouble, at::kBFloat16};
  const int64_t sizes[] = {7, 20'011, 300'007};
  std::vector<Planned> all;
  for (size_t i = 0; i < count; ++i) {
    std::vector<DeviceId> members;
    for (const uint32_t member : sets[random() % sets.size()]) members.emplace_back(member);
    all.push_back({std::move(members), types[random() % 3], sizes[random() % 3], random() % 3 == 0});
  }
  return all;
}

/// Elements of a member's share.
std::pair<int64_t, int64_t> share_of(const Planned& sum, size_t member) {
  const auto count = static_cast<int64_t>(sum.members.size()), at = static_cast<int64_t>(member);
  return {sum.size * at / count, sum.size * (at + 1) / count};
}

std::unique_ptr<PendingSum> begin(Transport& end, const Planned& sum, uint32_t part) {
  Value own = own_term(end, sum.size, sum.type);
  if (!sum.scattered)
    return end.begin_all_reduce({2, Kind::kAllReduce, 3, part}, sum.members, {std::move(own)}).value();
  std::vector<Values> terms;
  for (size_t i = 0; i < sum.members.size(); ++i) {
    const auto [first, last] = share_of(sum, i);
    terms.push_back({own->elements(first, last)});
  }
  return end.begin_reduce_scatter({2, Kind::kReduceScatter, 3, part}, sum.members, std::move(terms)).value();
}

at::Tensor wanted(const Planned& sum, DeviceId device) {
  const at::Tensor whole = expected(sum.members, sum.type, sum.size);
  if (!sum.scattered) return whole;
  const auto [first, last] = share_of(sum, position_in(sum.members, device));
  return whole.slice(0, first, last);
}

// Members differ and overlap. Each device waits in an order of its own, and messages pass meanwhile.
TEST_P(BegunSums, InFlightHaveTheBitsOfBlockingOnes) {
  constexpr uint32_t kSeed = 58;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const std::vector<Planned> sums = planned_sums(random, 24);
  const Ends ends = open(3);
  on_each(ends, [&](Transport& end) {
    std::mt19937 own_random(kSeed + 1 + end.device().index());
    const DeviceId next((end.device().index() + 1) % 3), previous((end.device().index() + 2) % 3);
    const TensorSpec message{ir::DType::kF32, {kLarge}};
    std::vector<std::pair<size_t, std::unique_ptr<PendingSum>>> pending;
    std::vector<std::unique_ptr<Receipt>> receipts;
    for (uint32_t i = 0; i < sums.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(own_random() % 3'000));
      if (i % 8 == 0) {
        receipts.push_back(end.receive({2, 0, i}, previous, message).value());
        ASSERT_TRUE(end.send({2, 0, i}, next, own_term(end, kLarge), SentValue::kFreedWhenTaken).ok());
      }
      const auto& members = sums[i].members;
      if (std::find(members.begin(), members.end(), end.device()) == members.end()) continue;
      pending.emplace_back(i, begin(end, sums[i], i));
    }
    for (const auto& receipt : receipts) {
      const auto arrived = receipt->wait();
      ASSERT_TRUE(arrived.ok()) << arrived.diagnostic().str();
      end.hardware().await(Stream::kCompute, arrived->ready);
      EXPECT_TRUE(
          at::equal(to_tensor(end.hardware().download(arrived->value)), term(at::kFloat, kLarge, previous.index())));
    }
    std::shuffle(pending.begin(), pending.end(), own_random);
    for (const auto& [i, sum] : pending) {
      const auto found = sum->wait();
      ASSERT_TRUE(found.ok()) << found.diagnostic().str();
      EXPECT_TRUE(at::equal(to_tensor(end.hardware().download((*found)[0])), wanted(sums[i], end.device()))) << i;
      EXPECT_LE(sum->finished_ns(), now_ns());
    }
    ASSERT_TRUE(end.flush().ok());
  });
  testing::leave(const_cast<Ends&>(ends));
}

// Device 1 begins the large sum only after the sum within the pass.
TEST_P(BegunSums, DoNotDelaySumsWithinPasses) {
  SKIP_IF_BEGIN_BLOCKS();
  Ends ends = open(2);
  on_each(ends, [](Transport& end) {
    std::unique_ptr<PendingSum> large;
    if (end.device() == DeviceId(0)) large = begin(end, 0, kLarge);
    for (uint32_t part = 0; part < 3; ++part) {
      const auto sums = end.all_reduce({1, Kind::kWithinPass, 0, part}, kBoth, {own_term(end, 20'011)});
      ASSERT_TRUE(sums.ok()) << sums.diagnostic().str();
      EXPECT_TRUE(at::equal(to_tensor(end.hardware().download((*sums)[0])), expected(kBoth, at::kFloat, 20'011)));
    }
    if (large == nullptr) large = begin(end, 0, kLarge);
    expect_sum(end, *large, kLarge);
    ASSERT_TRUE(end.flush().ok());
  });
  testing::leave(ends);
}

// Device 0 does nothing until device 1 has the sums.
TEST_P(BegunSums, ProgressWhileTheDeviceIsBusy) {
  if (!in_background() && GetParam().on_test_devices) GTEST_SKIP() << "NCCL moves the terms itself";
  Ends ends = open(2);
  std::promise<void> complete;
  on_each(ends, [&](Transport& end) {
    std::vector<std::unique_ptr<PendingSum>> sums;
    for (uint32_t part = 0; part < 4; ++part) sums.push_back(begin(end, part, kLarge));
    if (end.device() == DeviceId(0)) complete.get_future().wait();
    const int64_t start = now_ns();
    for (const auto& sum : sums) expect_sum(end, *sum, kLarge);
    if (end.device() == DeviceId(1)) complete.set_value();
    // The last one may still be taken by the other device.
    if (end.device() == DeviceId(0) && GetParam().transport->between_processes()) {
      EXPECT_LT(sums[2]->finished_ns(), start);
    }
  });
  testing::leave(ends);
}

// A blocking sum follows those that were begun.
TEST_P(BegunSums, PrecedeBlockingSums) {
  Ends ends = open(2);
  on_each(ends, [](Transport& end) {
    const auto first = begin(end, 0, kLarge);
    const Value ones = end.hardware().upload(to_value(at::ones({5})));
    const auto second = end.all_reduce({1, Kind::kOther, 0, 1}, kBoth, {ones});
    ASSERT_TRUE(second.ok()) << second.diagnostic().str();
    EXPECT_TRUE(at::equal(to_tensor(end.hardware().download((*second)[0])), at::full({5}, 2.F)));
    expect_sum(end, *first, kLarge);
    ASSERT_TRUE(end.flush().ok());
  });
  testing::leave(ends);
}

TEST_P(BegunSums, MayBeDropped) {
  SKIP_IF_BEGIN_BLOCKS();
  Ends ends = open(2);
  on_each(ends, [](Transport& end) {
    begin(end, 0, kLarge).reset();
    const auto kept = begin(end, 1, 20'011);
    expect_sum(end, *kept, 20'011);
    if (end.device() == DeviceId(0)) begin(end, 2, kLarge).reset();  // the other device never begins it
    ASSERT_TRUE(end.flush().ok() || end.device() == DeviceId(0));
  });
  ends[0]->abort(error("the step is over"));
  testing::leave(ends);
}

TEST_P(BegunSums, EndWithAnAbort) {
  Ends ends = open(2);
  on_each(ends, [](Transport& end) {
    if (end.device() == DeviceId(1)) return end.abort(error("the disk is full"));
    const auto sum = end.begin_all_reduce({1, Kind::kAllReduce}, kBoth, {own_term(end, kLarge)});
    const auto found = sum.ok() ? (*sum)->wait() : Result<Values>(sum.diagnostic());
    const auto flushed = end.flush();
    const auto& failed = found.ok() ? flushed.diagnostic() : found.diagnostic();
    EXPECT_THAT(failed.str(), HasSubstr("the disk is full"));
  });
  testing::leave(ends);
}

// The other device begins late, which is no failure before this one waits.
TEST_P(BegunSums, TimeOutOnceTheDeviceWaits) {
  const bool copies = GetParam().name == "local_on_test_devices";
  if (!in_background() || (GetParam().on_test_devices && !copies))
    GTEST_SKIP() << "of waits for host memory, which are slow to test";
  Ends ends = open(2, kShort);
  std::promise<void> late;
  on_each(ends, [&](Transport& end) {
    if (end.device() == DeviceId(1)) late.get_future().wait();
    const auto sum = begin(end, 0, 20'011);
    if (end.device() == DeviceId(0)) {
      std::this_thread::sleep_for(2 * kShort);
      late.set_value();
    }
    expect_sum(end, *sum, 20'011);
    ASSERT_TRUE(end.flush().ok());
    if (end.device() == DeviceId(1)) return;
    const auto found = begin(end, 1, 20'011)->wait();
    ASSERT_FALSE(found.ok());
    EXPECT_THAT(found.diagnostic().str(), HasSubstr("ms for device 1 to send its part of a sum over devices"));
  });
  ends[0]->abort(error("timed out"));
  testing::leave(ends);
}

TEST_P(BegunSums, OfDifferentNamesNeverMeet) {
  if (GetParam().on_test_devices) GTEST_SKIP() << "names do not depend on memory, and NCCL has none";
  const bool names_are_sent = GetParam().name == "shm";
  Ends ends = names_are_sent ? open(2) : open(2, kShort);
  on_each(ends, [](Transport& end) {
    const auto sum = begin(end, end.device().index(), 20'011);
    const auto found = sum->wait();
    ASSERT_FALSE(found.ok());
    end.abort(found.diagnostic());
  });
  if (names_are_sent) {
    EXPECT_THAT(ends[0]->failure()->str(), HasSubstr("terms of all-reduce 0, part"));
  }
  testing::leave(ends);
}

// What tests of overlap measure with.
TEST(SlowTransport, TakesTheTimeOfEachSumInTurn) {
  constexpr std::chrono::nanoseconds kPerByte{5'000};
  testing::SlowLinks links(kPerByte);
  Ends ends = find_transport("local")->open({&cpu(), &cpu()}, std::chrono::seconds(60));
  for (auto& end : ends)
    end = std::make_unique<testing::SlowTransport>(std::move(end), links, testing::Blocking::kNothing);
  testing::on_each(2, [&](uint32_t device) {
    Transport& end = *ends[device];
    const auto first = begin(end, 0, 500), second = begin(end, 1, 500);
    const int64_t begun = now_ns();
    expect_sum(end, *second, 500);
    EXPECT_GE(now_ns(), second->finished_ns());
    EXPECT_GE(second->finished_ns(), begun);  // 20 ms after the begin
    expect_sum(end, *first, 500);
    EXPECT_EQ(second->finished_ns() - first->finished_ns(), 2'000 * kPerByte.count());
  });
  EXPECT_EQ(links.sums().size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Transports, BegunSums, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rannc::runtime
