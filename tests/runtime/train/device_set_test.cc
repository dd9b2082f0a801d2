// The devices of a process: jobs on their threads, the first failure, sums over processes.
#include "runtime/train/internal/device_set.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "runtime/transport/transport_local.h"

namespace rannc::runtime {
namespace {

constexpr std::chrono::seconds kTimeout{20};

std::unique_ptr<TrainedDevice> device_of(std::shared_ptr<Transport> transport) {
  auto device = std::make_unique<TrainedDevice>();
  device->id = transport->device();
  device->transport = std::move(transport);
  device->thread = std::make_unique<DeviceThread>();
  return device;
}

DeviceSet whole_set(uint32_t devices) {
  DeviceSet set(devices);
  for (auto& transport : make_local_transports(devices, kTimeout)) set.add(device_of(std::move(transport)));
  return set;
}

TEST(DeviceSet, RunsAJobOnceOnEachThread) {
  DeviceSet set = whole_set(3);
  EXPECT_TRUE(set.whole());
  EXPECT_TRUE(set.contains(DeviceId(2)));
  EXPECT_FALSE(set.contains(DeviceId(3)));
  std::vector<std::thread::id> threads(3);
  ASSERT_TRUE(set.for_each([&](TrainedDevice& device) -> Result<void> {
                   threads[device.id.index()] = std::this_thread::get_id();
                   return {};
                 })
                  .ok());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NE(threads[i], std::thread::id());
    EXPECT_NE(threads[i], std::this_thread::get_id());
    for (size_t j = 0; j < i; ++j) EXPECT_NE(threads[i], threads[j]);
  }
}

TEST(DeviceSet, TheFirstFailureClosesTheRun) {
  DeviceSet set = whole_set(2);
  const auto failed = set.for_each([](TrainedDevice& device) -> Result<void> {
    if (device.id == DeviceId(1)) return error("disk full");
    // Waits for a message that never comes: only the other's failure ends it.
    const CollectiveKey key{0, CollectiveKey::Kind::kOther, 0};
    const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
    auto sum = device.transport->all_reduce(key, members, {});
    if (!sum.ok()) return sum.diagnostic();
    return {};
  });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.diagnostic().message, "disk full");
  ASSERT_TRUE(set.failure());
  EXPECT_EQ(set.failure()->message, "disk full");
  EXPECT_EQ(set.close(error("later")).message, "disk full");
  EXPECT_EQ(set.all_agree(true).diagnostic().message, "disk full");
}

TEST(DeviceSet, AnyThreadEndsAWait) {
  DeviceSet set = whole_set(2);
  std::latch waits(1);
  std::thread other([&] {
    waits.wait();
    set.abort(error("interrupted"));
  });
  const auto failed = set.for_each([&](TrainedDevice& device) -> Result<void> {
    if (device.id == DeviceId(1)) return {};
    waits.count_down();
    const CollectiveKey key{0, CollectiveKey::Kind::kOther, 0};
    const std::vector<DeviceId> members = {DeviceId(0), DeviceId(1)};
    auto sum = device.transport->all_reduce(key, members, {});  // the other device never joins
    if (!sum.ok()) return sum.diagnostic();
    return {};
  });
  other.join();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.diagnostic().message, "interrupted");
}

TEST(DeviceSet, AnExceptionIsAFailure) {
  DeviceSet set = whole_set(1);
  const auto failed = set.for_each([](TrainedDevice&) -> Result<void> { throw std::runtime_error("no such kernel"); });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.diagnostic().message, "device 0: no such kernel");
}

TEST(DeviceSet, SumsOverProcesses) {
  DeviceSet whole = whole_set(2);
  EXPECT_TRUE(at::equal(whole.sum_over_processes(at::full({2}, 3.0)).value(), at::full({2}, 3.0)));
  // Two sets with a device each stand for two processes.
  auto ends = make_local_transports(2, kTimeout);
  std::vector<DeviceSet> sets;
  for (auto& end : ends) {
    sets.emplace_back(size_t{2});
    sets.back().add(device_of(std::move(end)));
  }
  std::vector<at::Tensor> sums(2);
  std::vector<bool> agreed(2);
  const auto process = [&](size_t i) {
    sums[i] = sets[i].sum_over_processes(at::full({2}, 1.0 + static_cast<double>(i))).value();
    agreed[i] = sets[i].all_agree(i == 0).value();
  };
  std::thread other([&] { process(1); });
  process(0);
  other.join();
  for (const at::Tensor& sum : sums) EXPECT_TRUE(at::equal(sum, at::full({2}, 3.0)));
  EXPECT_EQ(agreed, (std::vector<bool>{false, false}));
}

TEST(DeviceSet, TheFailureOfOneProcessIsThatOfAll) {
  DeviceSet whole = whole_set(2);
  EXPECT_TRUE(whole.first_failure({}).ok());
  EXPECT_EQ(whole.first_failure(error("disk full")).diagnostic().message, "disk full");
  auto ends = make_local_transports(3, kTimeout);
  std::vector<DeviceSet> sets;
  for (auto& end : ends) {
    sets.emplace_back(size_t{3});
    sets.back().add(device_of(std::move(end)));
  }
  const std::vector<Result<void>> own = {{}, error(Location{"b.txt"}, "disk full"), error(Location{"c.txt"}, "later")};
  std::vector<Result<void>> well(3), failed(3);
  const auto process = [&](size_t i) {
    well[i] = sets[i].first_failure({});
    failed[i] = sets[i].first_failure(own[i]);
  };
  std::thread second([&] { process(1); }), third([&] { process(2); });
  process(0);
  second.join();
  third.join();
  for (const Result<void>& each : well) EXPECT_TRUE(each.ok());
  EXPECT_EQ(failed[1].diagnostic(), own[1].diagnostic());
  for (const size_t other : {0, 2}) EXPECT_EQ(failed[other].diagnostic().str(), "error: worker 1: b.txt: disk full");
  for (const DeviceSet& set : sets) EXPECT_FALSE(set.failure()) << "the run goes on";
}

TEST(DeviceSet, TextsReachTheFirstProcess) {
  DeviceSet whole = whole_set(2);
  EXPECT_EQ(whole.text_of(DeviceId(0), "all").value(), "all");
  auto ends = make_local_transports(3, kTimeout);
  std::vector<DeviceSet> sets;
  for (auto& end : ends) {
    sets.emplace_back(size_t{3});
    sets.back().add(device_of(std::move(end)));
  }
  const std::string longest(40'000'000, 'x');  // of several messages
  const std::vector<std::string> own = {"zero", "", longest + "y"};
  std::vector<std::vector<std::string>> found(3);
  const auto process = [&](size_t i) {
    for (size_t from = 0; from < 3; ++from) found[i].push_back(sets[i].text_of(DeviceId::from(from), own[i]).value());
  };
  std::thread second([&] { process(1); }), third([&] { process(2); });
  process(0);
  second.join();
  third.join();
  EXPECT_EQ(found[0], own);
  EXPECT_EQ(found[1], std::vector<std::string>(3));
  EXPECT_EQ(found[2], std::vector<std::string>(3));
}

}  // namespace
}  // namespace rannc::runtime
