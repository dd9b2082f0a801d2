// The plug-in of the test device: random numbers, and recordings.
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ir/base/split_mix.h"
#include "runtime/execute/random.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::testing {
namespace {

using runtime::DeviceRandom;
using ::testing::HasSubstr;

class TestDevicePluginTest : public ::testing::Test {
 protected:
  void SetUp() override { reset_test_device(); }
  void TearDown() override { EXPECT_EQ(take_race(), std::nullopt); }

  static c10::impl::VirtualGuardImpl guard() { return c10::impl::VirtualGuardImpl(at::kPrivateUse1); }
  static void order(const c10::Stream& earlier, const c10::Stream& later) {
    c10::Event event(at::kPrivateUse1);
    event.record(earlier);
    event.block(later);
  }
  static std::string error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  }
  static at::TensorOptions options() { return at::TensorOptions(test_device()); }
  runtime::DevicePlugin& plugin_ = test_device_plugin();
};

TEST_F(TestDevicePluginTest, DescribesTheDevices) {
  EXPECT_EQ(plugin_.type(), "test");
  EXPECT_EQ(c10::Device(std::string(plugin_.type()) + ":3"), test_device(3));
  EXPECT_EQ(plugin_.count(), 4U);
  EXPECT_EQ(plugin_.facts(2).memory_bytes, kTestDeviceBytes);
  EXPECT_EQ(plugin_.facts(2).clock_khz, kTestDeviceKhz);
  EXPECT_THROW(plugin_.facts(4), std::exception);
}

TEST_F(TestDevicePluginTest, FillsWithTheNumbersOfTheCpu) {
  constexpr int64_t kSamples = 3, kElements = 13;
  using Of = ir::RandomInput::Of;
  for (const auto& [of, of_device] :
       {std::pair(Of::kUniform, DeviceRandom::Of::kUniform), std::pair(Of::kNormal, DeviceRandom::Of::kNormal),
        std::pair(Of::kBernoulli, DeviceRandom::Of::kBernoulli)}) {
    ir::RandomInput input;
    input.of = of;
    input.key = 11;
    input.drop = 0.3;
    const runtime::RandomStep in{5, 6};
    at::Tensor expected = at::empty({kSamples, kElements});
    for (int64_t i = 0; i < kSamples; ++i) {
      runtime::fill(input, in, 40 + static_cast<uint64_t>(i),
                    {expected.data_ptr<float>() + i * kElements, static_cast<size_t>(kElements)});
    }
    const at::Tensor numbers = at::empty({kSamples, kElements}, options());
    DeviceRandom draw{numbers.data_ptr<float>(), kSamples, kElements, of_device, 0.3};
    draw.key = ir::split_mix(ir::split_mix(ir::split_mix(in.seed) ^ in.step) ^ input.key);
    draw.first_sample = 40;
    plugin_.fill(draw);
    EXPECT_TRUE(at::equal(numbers.cpu(), expected));

    const at::Tensor given = at::tensor({static_cast<int64_t>(draw.key), int64_t{40}}).to(test_device());
    draw.key = draw.first_sample = 0;
    draw.key_and_sample = reinterpret_cast<const uint64_t*>(given.data_ptr<int64_t>());
    numbers.zero_();
    plugin_.fill(draw);
    EXPECT_TRUE(at::equal(numbers.cpu(), expected));
  }
}

TEST_F(TestDevicePluginTest, FillingIsWorkOfAStream) {
  const at::Tensor numbers = at::empty({4}, options());
  const c10::StreamGuard other(guard().getNewStream(test_device()));
  EXPECT_THROW(plugin_.fill({numbers.data_ptr<float>(), 1, 4}), std::exception);
}

TEST_F(TestDevicePluginTest, ARecordingRunsAgainWithOtherNumbers) {
  const at::Tensor x = at::ones({4}, options()), y = at::zeros({4}, options());
  at::Tensor inner;
  const auto recorded = plugin_.record(
      [&] {
        inner = x.mul(2).exp();
        y.add_(inner);
      },
      1);
  ASSERT_NE(recorded, nullptr);
  EXPECT_TRUE(at::equal(y.cpu(), at::zeros({4}))) << "a recording changes nothing";
  recorded->replay();
  EXPECT_TRUE(at::equal(y.cpu(), at::full({4}, 2.0F).exp()));
  x.fill_(3);
  recorded->replay();
  EXPECT_TRUE(at::equal(inner.cpu(), at::full({4}, 6.0F).exp()));
  EXPECT_TRUE(at::equal(y.cpu(), at::full({4}, 2.0F).exp() + at::full({4}, 6.0F).exp()));
}

TEST_F(TestDevicePluginTest, ARecordingHasGradientsAndRandomNumbers) {
  at::Tensor x = at::ones({4}, options()).requires_grad_();
  const at::Tensor factors = at::empty({4}, options());
  at::Tensor gradient;
  const auto recorded = plugin_.record(
      [&] {
        plugin_.fill({factors.data_ptr<float>(), 1, 4});
        x.mutable_grad() = at::Tensor();
        (x * x * factors).sum().backward();
        gradient = x.grad();
      },
      1);
  factors.zero_();
  recorded->replay();
  const at::Tensor first = factors.cpu();
  EXPECT_TRUE(at::equal(gradient.cpu(), first + first));
  EXPECT_GT(first.sum().item<float>(), 0);
}

TEST_F(TestDevicePluginTest, ARecordingCannotMakeTheHostWait) {
  const at::Tensor x = at::ones({4}, options());
  EXPECT_THROW(plugin_.record([&] { x.sum().item<float>(); }, 1), c10::Error);
  EXPECT_THROW(plugin_.record([&] { x.cpu(); }, 1), c10::Error);
  EXPECT_THROW(plugin_.record([&] { guard().synchronizeStream(guard().getStream(test_device())); }, 1), c10::Error);
  EXPECT_THROW(plugin_.record([&] { x.nonzero(); }, 1), c10::Error);
  EXPECT_THROW(plugin_.record([&] { x.index({x.eq(1)}); }, 1), c10::Error);
  EXPECT_EQ(x.sum().item<float>(), 4) << "the recordings ended";
}

TEST_F(TestDevicePluginTest, ARecordingHasTheStreamsThatWaitForIt) {
  const at::Tensor x = at::ones({4}, options()), y = at::zeros({4}, options());
  const c10::Stream first = guard().getStream(test_device()), second = guard().getNewStream(test_device());
  const auto recorded = plugin_.record(
      [&] {
        order(first, second);
        {
          const c10::StreamGuard current(second);
          y.add_(x);
        }
        order(second, first);
      },
      1);
  EXPECT_TRUE(at::equal(y.cpu(), at::zeros({4})));
  recorded->replay();
  EXPECT_TRUE(at::equal(y.cpu(), at::ones({4})));
  {
    const c10::StreamGuard current(second);
    guard().synchronizeStream(first);
    y.add_(x);
  }
  guard().synchronizeStream(second);
}

TEST_F(TestDevicePluginTest, EventsOfARecordingEndWithIt) {
  const c10::Stream stream = guard().getStream(test_device());
  c10::Event event(at::kPrivateUse1);
  plugin_.record([&] { event.record(stream); }, 1);
  EXPECT_THAT(error_of([&] { event.block(guard().getNewStream(test_device())); }), HasSubstr("a recording that ended"));
  EXPECT_THAT(error_of([&] { event.synchronize(); }), HasSubstr("an event of a recording"));
}

// Neither what the stream did before nor what it records is ordered by the recording.
TEST_F(TestDevicePluginTest, ARecordingIsNotWorkOfItsStream) {
  const at::Tensor x = at::ones({4}, options()), y = at::zeros({4}, options());
  std::unique_ptr<runtime::RecordedWork> recorded;
  {
    const c10::StreamGuard current(guard().getNewStream(test_device()));
    recorded = plugin_.record([&] { y.add_(x.mul(2)); }, 1);
  }
  x.fill_(3);
  recorded->replay();
  EXPECT_TRUE(at::equal(y.cpu(), at::full({4}, 6.0)));
}

TEST_F(TestDevicePluginTest, ARecordingOrdersNoOtherWork) {
  const c10::Stream first = guard().getStream(test_device()), second = guard().getNewStream(test_device());
  at::Tensor x;
  {
    const c10::StreamGuard current(second);
    x = at::ones({4}, options());
  }
  plugin_.record(
      [&] {
        order(first, second);
        order(second, first);
      },
      1);
  EXPECT_THAT(error_of([&] { x.add(1); }), HasSubstr("no event orders them"));
}

TEST_F(TestDevicePluginTest, StreamsOfARecordingAreOrdered) {
  const at::Tensor x = at::ones({4}, options());
  const c10::Stream first = guard().getStream(test_device()), second = guard().getNewStream(test_device());
  const auto without_join = [&] {
    order(first, second);
    const c10::StreamGuard current(second);
    const at::Tensor y = x.exp();
    const c10::StreamGuard back(first);
    y.add(1);
  };
  EXPECT_THAT(error_of([&] { plugin_.record(without_join, 1); }), HasSubstr("reads memory that aten::exp on"));
}

TEST_F(TestDevicePluginTest, ARecordedStreamCannotWaitForOtherWork) {
  const c10::Stream second = guard().getNewStream(test_device());
  c10::Event event(at::kPrivateUse1);
  {
    const c10::StreamGuard current(second);
    at::ones({4}, options());
  }
  event.record(second);
  EXPECT_THAT(error_of([&] { plugin_.record([&] { event.block(guard().getStream(test_device())); }, 1); }),
              HasSubstr("is recorded and waits for work that is not"));
}

TEST_F(TestDevicePluginTest, ReplaysOfOnePoolMustNotOverlap) {
  const at::Tensor x = at::ones({4}, options()), y = at::ones({4}, options());
  const auto first = plugin_.record([&] { x.add_(1); }, 2), second = plugin_.record([&] { y.add_(1); }, 2);
  const auto third = plugin_.record([&] { y.add_(1); }, 3);
  guard().synchronizeDevice(0);
  first->replay();
  const c10::StreamGuard current(guard().getNewStream(test_device()));
  EXPECT_THAT(error_of([&] { second->replay(); }), HasSubstr("the replay of a recording on stream"));
  third->replay();
  guard().synchronizeDevice(0);
  second->replay();
  guard().synchronizeDevice(0);
}

TEST_F(TestDevicePluginTest, ARecordingCopiesThroughPinnedMemory) {
  at::Tensor in = at::ones({4}).pin_memory(), out = at::zeros({4}).pin_memory();
  const at::Tensor x = at::zeros({4}, options());
  const auto recorded = plugin_.record(
      [&] {
        x.copy_(in, /*non_blocking=*/true);
        out.copy_(x.add(1), /*non_blocking=*/true);
      },
      1);
  guard().synchronizeDevice(0);
  EXPECT_TRUE(at::equal(out, at::zeros({4})));
  in.fill_(5);
  recorded->replay();
  guard().synchronizeDevice(0);
  EXPECT_TRUE(at::equal(out, at::full({4}, 6.0)));
}

TEST_F(TestDevicePluginTest, AReplayIsWorkOfTheCurrentStream) {
  const at::Tensor x = at::ones({4}, options()), y = at::zeros({4}, options());
  const auto recorded = plugin_.record([&] { y.add_(x); }, 1);
  const auto other = guard().getNewStream(test_device());
  const c10::StreamGuard current(other);
  EXPECT_THAT(error_of([&] { recorded->replay(); }), HasSubstr("and no event orders them"));
}

}  // namespace
}  // namespace rannc::testing
