// Missing waits between streams, each of which is found, and is not when there is a wait.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/support/test_device/test_device.h"

namespace rannc::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TestDeviceOrder : public ::testing::Test {
 protected:
  void SetUp() override { reset_test_device(); }
  void TearDown() override { EXPECT_EQ(take_race(), std::nullopt); }

  static c10::impl::VirtualGuardImpl guard() {
    use_test_device();
    return c10::impl::VirtualGuardImpl(at::kPrivateUse1);
  }
  static c10::Stream new_stream(c10::DeviceIndex device = 0) { return guard().getNewStream(test_device(device)); }
  /// Runs `work` on `stream`.
  static void on(const c10::Stream& stream, const std::function<void()>& work) {
    const c10::StreamGuard current(stream);
    work();
  }
  /// Makes `later` wait for the work that `earlier` has now.
  static void order(const c10::Stream& earlier, const c10::Stream& later) {
    c10::Event event(at::kPrivateUse1);
    event.record(earlier);
    event.block(later);
  }
  static void wait_for_device() { guard().synchronizeDevice(0); }
  static at::Tensor ones() { return at::ones({4}, at::TensorOptions(test_device())); }
  static std::string race_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no race";
  }

  const c10::Stream first_ = new_stream(), second_ = new_stream();
};

TEST_F(TestDeviceOrder, ReadAfterWrite) {
  at::Tensor x;
  on(first_, [&] { x = ones().mul(2); });
  const std::string race = race_of([&] { on(second_, [&] { x.add(1); }); });
  EXPECT_THAT(race, AllOf(HasSubstr("aten::add on stream " + std::to_string(second_.id()) + " of device 0 reads"),
                          HasSubstr("aten::mul on stream " + std::to_string(first_.id()) + " of device 0 writes"),
                          HasSubstr("no event orders them")));
  order(first_, second_);
  on(second_, [&] { EXPECT_TRUE(at::equal(x.add(1).cpu(), at::full({4}, 3.0))); });
  order(second_, first_);
}

TEST_F(TestDeviceOrder, WriteAfterRead) {
  at::Tensor x = ones();
  order(guard().getDefaultStream(test_device()), first_);
  order(guard().getDefaultStream(test_device()), second_);
  at::Tensor y;
  on(first_, [&] { y = x.exp(); });
  EXPECT_THAT(race_of([&] { on(second_, [&] { x.zero_(); }); }),
              AllOf(HasSubstr("aten::zero_ on"), HasSubstr("writes memory that aten::exp on"), HasSubstr("reads")));
  order(first_, second_);
  on(second_, [&] { x.zero_(); });
  wait_for_device();
}

TEST_F(TestDeviceOrder, WriteAfterWrite) {
  at::Tensor x;
  on(first_, [&] { x = ones(); });
  EXPECT_THAT(race_of([&] { on(second_, [&] { x.fill_(3); }); }),
              AllOf(HasSubstr("aten::fill_ on"), HasSubstr("writes memory that")));
  order(first_, second_);
  on(second_, [&] { x.fill_(3); });
  wait_for_device();
}

TEST_F(TestDeviceOrder, ReadsNeedNoOrder) {
  const at::Tensor x = ones();
  wait_for_device();
  at::Tensor y, z;
  on(first_, [&] { y = x.exp(); });
  on(second_, [&] { z = x.exp(); });
  wait_for_device();
}

TEST_F(TestDeviceOrder, RangesOfOneStorageAreApart) {
  at::Tensor x = ones();
  wait_for_device();
  on(first_, [&] { x.narrow(0, 0, 2).zero_(); });
  on(second_, [&] { x.narrow(0, 2, 2).zero_(); });
  EXPECT_THAT(race_of([&] { on(second_, [&] { x.narrow(0, 1, 2).zero_(); }); }), HasSubstr("aten::zero_"));
  wait_for_device();
}

TEST_F(TestDeviceOrder, FreeWhileAnotherStreamReads) {
  at::Tensor x, y;
  on(first_, [&] { x = ones(); });
  order(first_, second_);
  on(second_, [&] { y = x.exp(); });
  x.reset();
  EXPECT_THAT(pending_race().value_or(""),
              AllOf(HasSubstr("memory of stream " + std::to_string(first_.id())), HasSubstr("freed while aten::exp")));
  EXPECT_THAT(race_of([&] { on(second_, [&] { y.add(1); }); }), HasSubstr("freed while aten::exp"));
  EXPECT_EQ(pending_race(), std::nullopt) << "it was thrown";
}

TEST_F(TestDeviceOrder, FreeAfterAWait) {
  at::Tensor x, y;
  on(first_, [&] { x = ones(); });
  order(first_, second_);
  on(second_, [&] { y = x.exp(); });
  order(second_, first_);
  x.reset();
}

TEST_F(TestDeviceOrder, RecordedStreamsKeepMemory) {
  at::Tensor x, y;
  on(first_, [&] { x = ones(); });
  order(first_, second_);
  on(second_, [&] { y = x.exp(); });
  x.record_stream(second_);
  const void* memory = x.storage().data_ptr().get();
  x.reset();
  const auto next_memory = [] { return at::empty({4}, at::TensorOptions(test_device())).storage().data_ptr().get(); };
  on(first_, [&] { EXPECT_NE(next_memory(), memory); });
  order(second_, first_);
  on(first_, [&] { EXPECT_EQ(next_memory(), memory); });
}

TEST_F(TestDeviceOrder, NewMemoryBelongsToItsStream) {
  at::Tensor x;
  on(first_, [&] { x = at::empty({4}, at::TensorOptions(test_device())); });
  EXPECT_THAT(race_of([&] { on(second_, [&] { x.zero_(); }); }), HasSubstr("the allocation on stream"));
}

TEST_F(TestDeviceOrder, TheHostOrdersWhatItWaitedFor) {
  const auto writes = [&] { return ones().mul(2); };
  const std::function<void(const c10::Event&)> ways[] = {
      [&](const c10::Event&) { guard().synchronizeStream(first_); },
      [&](const c10::Event&) { guard().synchronizeDevice(0); },
      [&](const c10::Event& event) { event.synchronize(); },
      [&](const c10::Event& event) { EXPECT_TRUE(event.query()); },
  };
  for (const auto& wait : ways) {
    at::Tensor x;
    c10::Event event(at::kPrivateUse1);
    on(first_, [&] { x = writes(); });
    event.record(first_);
    wait(event);
    on(second_, [&] { x.add(1); });
    order(second_, first_);
  }
}

TEST_F(TestDeviceOrder, AnEventOrdersOnlyWhatPrecedesIt) {
  at::Tensor x;
  on(first_, [&] { x = ones(); });
  order(first_, second_);
  on(first_, [&] { x.mul_(2); });
  EXPECT_THAT(race_of([&] { on(second_, [&] { x.add(1); }); }), HasSubstr("that aten::mul on"));
}

TEST_F(TestDeviceOrder, OrderIsTransitive) {
  const c10::Stream third = new_stream(1);
  at::Tensor x;
  on(first_, [&] { x = ones(); });
  order(first_, third);
  order(third, second_);
  on(second_, [&] { x.add_(1); });
  order(second_, first_);
}

TEST_F(TestDeviceOrder, EnqueuingThreadsAreNotOrderedByTheirCalls) {
  at::Tensor x;
  std::thread([&] { on(first_, [&] { x = ones(); }); }).join();
  EXPECT_THAT(race_of([&] { on(second_, [&] { x.add(1); }); }), HasSubstr("reads memory"));
}

// A thread per device, each with two streams.
TEST_F(TestDeviceOrder, ThreadsMayEnqueueAtOnce) {
  constexpr int kThreads = 4, kSteps = 200;
  std::vector<std::thread> threads;
  std::vector<float> sums(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &sums] {
      const auto device = static_cast<c10::DeviceIndex>(t);
      const c10::StreamGuard current(new_stream(device));
      const c10::Stream side = new_stream(device);
      at::Tensor sum = at::zeros({4}, at::TensorOptions(test_device(device)));
      for (int i = 0; i < kSteps; ++i) {
        order(guard().getStream(test_device(device)), side);
        on(side, [&] { sum.add_(1); });
        order(side, guard().getStream(test_device(device)));
      }
      sums[static_cast<size_t>(t)] = sum.sum().item<float>();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sums, ::testing::Each(4 * kSteps));
}

TEST_F(TestDeviceOrder, ACopyBetweenDevicesWaitsForBoth) {
  at::Tensor x, y;
  on(first_, [&] { x = ones(); });
  const c10::Stream there = new_stream(1);
  const c10::StreamGuard current(there);
  EXPECT_THAT(race_of([&] { x.to(test_device(1)); }), HasSubstr("aten::copy_ on stream"));
  on(first_, [&] { y = x.to(test_device(1)); });
  EXPECT_EQ(y.device(), test_device(1));
  EXPECT_TRUE(at::equal(y.cpu(), at::ones({4})));
}

TEST_F(TestDeviceOrder, CaughtRacesAreCounted) {
  const uint64_t before = races_found();
  at::Tensor x;
  on(first_, [&] { x = ones(); });
  race_of([&] { on(second_, [&] { x.add(1); }); });
  EXPECT_EQ(races_found(), before + 1);
}

// Gradients are computed on the streams of the forward pass, by threads of LibTorch.
TEST_F(TestDeviceOrder, AutogradUsesTheStreamsOfTheForwardPass) {
  at::Tensor x, loss;
  on(first_, [&] {
    x = ones().requires_grad_();
    loss = x.mul(2).exp().sum();
  });
  on(first_, [&] {
    loss.backward();
    EXPECT_TRUE(at::allclose(x.grad().cpu(), at::full({4}, 2 * std::exp(2.0))));
  });
}

TEST_F(TestDeviceOrder, AutogradFindsMissingWaits) {
  at::Tensor x, loss;
  const at::Tensor weight = ones();
  wait_for_device();
  on(first_, [&] {
    x = ones().requires_grad_();
    loss = x.mul(weight).sum();
  });
  order(first_, second_);
  // Autograd itself does not see this change.
  on(second_, [&] { at::empty({0}, weight.options()).set_(weight).zero_(); });
  EXPECT_THAT(race_of([&] { loss.backward(); }), HasSubstr("reads memory that aten::zero_ on"));
  wait_for_device();
}

TEST_F(TestDeviceOrder, AutogradCrossesDevices) {
  const at::Tensor x = ones().requires_grad_();
  x.mul(2).to(test_device(1), /*non_blocking=*/true).exp().sum().backward();
  EXPECT_EQ(x.grad().device(), test_device());
  EXPECT_TRUE(at::allclose(x.grad().cpu(), at::full({4}, 2 * std::exp(2.0))));
}

// A leaf that another stream made: the engine itself waits, at the end for the stream that called it.
TEST_F(TestDeviceOrder, AutogradJoinsStreams) {
  at::Tensor x, y, loss;
  on(first_, [&] {
    x = ones().requires_grad_();
    y = x.mul(2);
  });
  order(first_, second_);
  on(second_, [&] {
    loss = y.exp().sum();
    loss.backward();
    x.grad().add(1);
  });
  order(second_, first_);
}

}  // namespace
}  // namespace rannc::testing
