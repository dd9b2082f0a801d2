// Memory of the test device, and pinned memory.
#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/engine/allocation_meter.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::testing {
namespace {

using ::testing::HasSubstr;

class TestDeviceMemory : public ::testing::Test {
 protected:
  void SetUp() override { reset_test_device(); }
  void TearDown() override { EXPECT_EQ(take_race(), std::nullopt); }

  static at::TensorOptions options(c10::DeviceIndex device = 0) { return at::TensorOptions(test_device(device)); }
  static void wait() { c10::impl::VirtualGuardImpl(at::kPrivateUse1).synchronizeDevice(0); }
  static c10::CachingDeviceAllocator::DeviceStats stats(c10::DeviceIndex device = 0) {
    return c10::getDeviceAllocator(at::kPrivateUse1)->getDeviceStats(device);
  }
  static at::Tensor pinned(float number) { return at::full({1000}, number).pin_memory(); }
};

using TestDeviceMemoryDeathTest = TestDeviceMemory;

TEST_F(TestDeviceMemoryDeathTest, TheHostCannotReadOrWriteDeviceMemory) {
  const at::Tensor x = at::ones({4}, options());
  auto* numbers = x.data_ptr<float>();
  volatile float number = 0;
  EXPECT_DEATH(number = *numbers, "");
  EXPECT_DEATH(*numbers = number, "");
}

TEST_F(TestDeviceMemory, LiveAndPeakBytesAreCounted) {
  auto* allocator = c10::getDeviceAllocator(at::kPrivateUse1);
  const int64_t before = stats(1).allocated_bytes[0].current;
  allocator->resetPeakStats(1);
  {
    const at::Tensor large = at::empty({1 << 20}, options(1).dtype(at::kByte));
    const at::Tensor small = at::empty({1}, options(1));
    EXPECT_EQ(stats(1).allocated_bytes[0].current - before, (1 << 20) + 512);
  }
  EXPECT_EQ(stats(1).allocated_bytes[0].current, before);
  EXPECT_EQ(stats(1).allocated_bytes[0].peak - before, (1 << 20) + 512);
  allocator->resetPeakStats(1);
  EXPECT_EQ(stats(1).allocated_bytes[0].peak, before);
  EXPECT_EQ(allocator->getMemoryInfo(1).second, kTestDeviceBytes);
}

TEST_F(TestDeviceMemory, AllocationsAreReportedToTheThread) {
  const runtime::AllocationMeter meter;
  {
    const at::Tensor x = at::empty({1 << 20}, options().dtype(at::kByte));
    EXPECT_EQ(meter.live_bytes(), 1 << 20);
  }
  EXPECT_EQ(meter.live_bytes(), 0);
}

TEST_F(TestDeviceMemory, AnAllocationBeyondTheDeviceThrows) {
  EXPECT_THROW(at::empty({int64_t{20} << 30}, options().dtype(at::kByte)), c10::OutOfMemoryError);
}

TEST_F(TestDeviceMemory, BlocksOfOneStreamAreUsedAgain) {
  const void* first = at::empty({1000}, options()).storage().data_ptr().get();
  EXPECT_EQ(at::empty({1000}, options()).storage().data_ptr().get(), first);
  const c10::StreamGuard other(c10::impl::VirtualGuardImpl(at::kPrivateUse1).getNewStream(test_device()));
  EXPECT_NE(at::empty({1000}, options()).storage().data_ptr().get(), first);
}

TEST_F(TestDeviceMemory, ManyTensorsFreedInAnyOrderKeepTheirNumbers) {
  std::vector<at::Tensor> held(64);
  uint32_t random = 1;
  for (int i = 0; i < 3000; ++i) {
    random = random * 1664525 + 1013904223;
    at::Tensor& tensor = held[(random >> 8) % held.size()];
    if (tensor.defined()) {
      const at::Tensor numbers = tensor.cpu();
      ASSERT_TRUE(at::equal(numbers, at::full_like(numbers, numbers.size(0))));
    }
    const int64_t size = 1 + (random >> 16) % 3000;
    tensor = at::full({size}, static_cast<float>(size), options());
  }
}

TEST_F(TestDeviceMemory, StoragesGrow) {
  at::Tensor x = at::arange(4, options());
  x.resize_({1000});
  EXPECT_TRUE(at::equal(x.narrow(0, 0, 4).cpu(), at::arange(4)));
}

TEST_F(TestDeviceMemory, PinnedTensorsAreKnown) {
  EXPECT_TRUE(pinned(1).is_pinned());
  EXPECT_FALSE(at::ones({4}).is_pinned());
  EXPECT_TRUE(at::empty({4}, at::TensorOptions().pinned_memory(true)).is_pinned());
}

// Until the host waits, every byte of the target is 0xff.
TEST_F(TestDeviceMemory, AnAsynchronousCopyToTheHostArrivesWithTheWait) {
  const at::Tensor x = at::full({1000}, 3.0F, options());
  const at::Tensor y = x.to(at::kCPU, /*non_blocking=*/true);
  EXPECT_TRUE(y.is_pinned());
  EXPECT_TRUE(std::isnan(y[7].item<float>()));
  wait();
  EXPECT_TRUE(at::equal(y, at::full({1000}, 3.0F)));
}

TEST_F(TestDeviceMemory, ABlockingCopyToTheHostWaits) {
  at::Tensor y = pinned(0);
  y.copy_(at::full({1000}, 3.0F, options()));
  EXPECT_TRUE(at::equal(y, at::full({1000}, 3.0F)));
}

TEST_F(TestDeviceMemory, ACopyToTheHostAndBackOnOneStreamNeedsNoWait) {
  at::Tensor y = pinned(0);
  y.copy_(at::full({1000}, 3.0F, options()), /*non_blocking=*/true);
  EXPECT_TRUE(at::equal(y.to(test_device(), true).cpu(), at::full({1000}, 3.0F)));
}

TEST_F(TestDeviceMemory, TheHostMustNotChangePinnedMemoryThatAStreamReads) {
  at::Tensor y = pinned(1);
  const at::Tensor x = y.to(test_device(), /*non_blocking=*/true);
  y.fill_(2);
  wait();
  EXPECT_THAT(take_race().value_or(""), HasSubstr("the host writes pinned memory"));
}

TEST_F(TestDeviceMemory, TheHostMayChangePinnedMemoryAfterAWait) {
  at::Tensor y = pinned(1);
  const at::Tensor x = y.to(test_device(), /*non_blocking=*/true);
  wait();
  y.fill_(2);
  wait();
}

TEST_F(TestDeviceMemory, APageableCopyIsReadBeforeItReturns) {
  at::Tensor y = at::ones({1000});
  const at::Tensor x = y.to(test_device(), /*non_blocking=*/true);
  y.fill_(2);
  EXPECT_TRUE(at::equal(x.cpu(), at::ones({1000})));
}

TEST_F(TestDeviceMemory, FreedPinnedMemoryWaitsForItsStream) {
  at::Tensor y = pinned(1);
  const void* first = y.data_ptr();
  const at::Tensor x = y.to(test_device(), /*non_blocking=*/true);
  y.reset();
  EXPECT_NE(at::empty({1000}, at::TensorOptions().pinned_memory(true)).data_ptr(), first);
  wait();
  std::vector<at::Tensor> next;
  for (int i = 0; i < 2; ++i) next.push_back(at::empty({1000}, at::TensorOptions().pinned_memory(true)));
  EXPECT_TRUE(next[0].data_ptr() == first || next[1].data_ptr() == first);
}

}  // namespace
}  // namespace rannc::testing
