// The gauge's allocator serves LibTorch as its own does: oneDNN's buffers and aligned data included.
#include "tools/measure/memory_gauge.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "ir/base/diagnostic.h"

namespace rannc::tools {
namespace {

class MemoryGaugeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    EXPECT_THROW(MemoryGauge::peak_bytes(), InternalError) << "nothing is counted yet, which is not 0 bytes";
    MemoryGauge::install();
  }

  static bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % c10::gAlignment == 0; }
};

TEST_F(MemoryGaugeTest, DataIsAligned) {
  ASSERT_GE(c10::gAlignment, 64U);
  for (const size_t bytes : {1, 3, 63, 64, 65, 4096, 1 << 20}) {
    const c10::DataPtr data = c10::GetCPUAllocator()->allocate(bytes);
    EXPECT_TRUE(aligned(data.get())) << bytes;
    EXPECT_TRUE(c10::GetCPUAllocator()->is_simple_data_ptr(data));
  }
  const at::Tensor copy = at::ones({33}).clone();
  EXPECT_TRUE(aligned(copy.data_ptr()));
}

TEST_F(MemoryGaugeTest, RawAllocationsAreAlignedAndCounted) {
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  const uint64_t before = MemoryGauge::live_bytes();
  void* data = allocator.raw_allocate(1000);
  EXPECT_TRUE(aligned(data));
  EXPECT_EQ(MemoryGauge::live_bytes(), before + 1000);
  allocator.raw_deallocate(data);
  EXPECT_EQ(MemoryGauge::live_bytes(), before);
  allocator.raw_deallocate(allocator.raw_allocate(0));
  EXPECT_EQ(MemoryGauge::live_bytes(), before);
}

TEST_F(MemoryGaugeTest, AThreadMayAllocateUncounted) {
  const uint64_t before = MemoryGauge::live_bytes();
  at::Tensor kept;
  std::thread([&kept] {
    const MemoryGauge::Uncounted outer;
    { const MemoryGauge::Uncounted inner; }
    kept = at::empty({1000});
  }).join();
  EXPECT_EQ(MemoryGauge::live_bytes(), before);
  const at::Tensor counted = at::empty({10}, at::kByte);
  EXPECT_EQ(MemoryGauge::live_bytes(), before + 10) << "of other threads";
  kept.reset();
  EXPECT_EQ(MemoryGauge::live_bytes(), before + 10) << "freed by another thread";
}

TEST_F(MemoryGaugeTest, CountsEffortsOnlyWhereAsked) {
  const MemoryGauge::Effort before = MemoryGauge::effort();
  { const at::Tensor uncounted = at::empty({1000}); }
  EXPECT_EQ(MemoryGauge::effort().allocations, before.allocations);
  EXPECT_EQ(MemoryGauge::effort().ns, before.ns);
  MemoryGauge::count_efforts(true);
  { const at::Tensor counted = at::empty({1000}, at::kDouble); }
  const MemoryGauge::Effort allocated = MemoryGauge::effort();
  std::thread([] { const at::Tensor of_another_thread = at::empty({1000}); }).join();
  MemoryGauge::count_efforts(false);
  EXPECT_EQ(allocated.allocations, before.allocations + 1);
  EXPECT_EQ(allocated.bytes, before.bytes + 8000);
  EXPECT_GT(allocated.ns, before.ns);
  EXPECT_EQ(MemoryGauge::effort().allocations, allocated.allocations);
}

TEST_F(MemoryGaugeTest, CountsTensorsToTheByte) {
  const uint64_t before = MemoryGauge::live_bytes();
  MemoryGauge::restart();
  {
    const at::Tensor kept = at::zeros({100}, at::kFloat);
    EXPECT_EQ(MemoryGauge::live_bytes(), before + 400);
    const at::Tensor none = at::empty({0}, at::kFloat);
    EXPECT_EQ(MemoryGauge::live_bytes(), before + 400);
  }
  EXPECT_EQ(MemoryGauge::live_bytes(), before);
  EXPECT_EQ(MemoryGauge::peak_bytes(), before + 400);
}

// Sizes at which LibTorch hands float32 work to oneDNN, whose scratch memory and packed weights are raw allocations.
TEST_F(MemoryGaugeTest, ConvolutionAndGeluGoToOneDnn) {
  const at::Tensor image = at::ones({16, 16, 32, 32}).requires_grad_();
  const at::Tensor kernel = at::ones({16, 16, 3, 3}).requires_grad_();
  at::conv2d(image, kernel, {}, 1, 1).sum().backward();
  EXPECT_EQ(image.grad()[0][0][5][5].item<float>(), 16 * 9);
  EXPECT_EQ(kernel.grad()[0][0][1][1].item<float>(), 16 * 32 * 32);

  const at::Tensor wide = at::ones({64, 64, 64}).requires_grad_();
  at::gelu(wide, "none").sum().backward();
  EXPECT_NEAR(wide.grad()[0][0][0].item<float>(), 1.0833, 1e-4);
}

}  // namespace
}  // namespace rannc::tools
