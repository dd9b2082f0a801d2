/// Terms of sums over devices, and the transports that add them, for tests.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <tuple>

#include "runtime/device/devices.h"
#include "runtime/transport/transports.h"
#include "tests/runtime/transport/joined_ends.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::testing {

constexpr uint32_t kSummingDevices = 8;

/// Of very different sizes, so that another order or an early rounding shows.
inline at::Tensor drawn(at::ScalarType type, int64_t size, uint32_t device) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(100 * static_cast<uint64_t>(size) + device);
  const at::Tensor exponents = at::randn({size}, generator, at::kDouble) * 3;
  return (at::randn({size}, generator, at::kDouble) * at::exp(exponents)).to(type);
}

/// What a device adds. Drawn once: that takes longer than to sum it.
inline at::Tensor term(at::ScalarType type, int64_t size, uint32_t device) {
  static std::mutex mutex;
  static std::map<std::tuple<at::ScalarType, int64_t, uint32_t>, at::Tensor> made;
  const std::lock_guard lock(mutex);
  at::Tensor& kept = made[{type, size, device}];
  if (!kept.defined()) kept = drawn(type, size, device);
  return kept.clone();
}

inline at::Tensor expected(const std::vector<DeviceId>& members, at::ScalarType type, int64_t size) {
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor sum = term(type, size, members[0].index()).to(wide);
  for (size_t i = 1; i < members.size(); ++i) sum = sum + term(type, size, members[i].index()).to(wide);
  return sum.to(type);
}

struct SumsCase {
  std::string name;
  const runtime::TransportKind* transport;
  bool on_test_devices;
};

/// Every transport, in the memory that it may be used with.
inline std::vector<SumsCase> sums_cases() {
  std::vector<SumsCase> all;
  for (const runtime::TransportKind& kind : runtime::transports()) {
    if (!kind.exact_sums) continue;
    const std::string name(kind.name);
    if (!kind.needs_nccl) all.push_back({name, &kind, false});
    all.push_back({name + "_on_test_devices", &kind, true});
  }
  return all;
}

class SumsTest : public ::testing::TestWithParam<SumsCase> {
 protected:
  void SetUp() override {
    if (GetParam().on_test_devices) reset_test_device();
    for (uint32_t device = 0; device < kSummingDevices; ++device) {
      const auto kind = GetParam().on_test_devices
                            ? runtime::devices_of(test_device_plugin())[device % kTestDevices]
                            : std::shared_ptr<runtime::Device>(std::shared_ptr<runtime::Device>(), &runtime::cpu());
      hardware_.push_back(kind->with_own_streams());
    }
  }
  void TearDown() override {
    if (!GetParam().on_test_devices) return;
    EXPECT_EQ(take_race(), std::nullopt);
  }

  Ends open(uint32_t count = kSummingDevices, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    const runtime::TransportKind& kind = *GetParam().transport;
    if (!kind.between_processes()) {
      std::vector<runtime::Device*> devices;
      for (uint32_t device = 0; device < count; ++device) devices.push_back(hardware_[device].get());
      return kind.open(devices, timeout);
    }
    runtime::Rendezvous common;
    common.workers = count;
    common.timeout = timeout;
    Joined joined =
        join_each(common, [&](const runtime::Rendezvous& where) { return kind.join(where, *hardware_[where.rank]); });
    EXPECT_EQ(joined.failures, std::vector<std::string>(count));
    return std::move(joined.ends);
  }

 private:
  std::vector<std::unique_ptr<runtime::Device>> hardware_;
};

}  // namespace rannc::testing
