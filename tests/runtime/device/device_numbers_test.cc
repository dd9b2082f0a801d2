// Random numbers and copies of a device, of the plug-in in RANNC_TEST_PLUGIN.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/device/devices.h"
#include "runtime/execute/random.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

using Of = ir::RandomInput::Of;

std::shared_ptr<Device> device() {
  static const std::vector<std::shared_ptr<Device>> devices = [] {
    const char* const path = std::getenv("RANNC_TEST_PLUGIN");
    if (path == nullptr) return std::vector<std::shared_ptr<Device>>();
    return devices_of(*open_plugin(path).value());
  }();
  return devices.empty() ? nullptr : devices.front();
}

class DeviceNumbers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device() == nullptr) GTEST_SKIP() << "RANNC_TEST_PLUGIN names no plug-in";
    scope_ = device()->enter(Stream::kCompute);
  }

  static at::Tensor numbers(DeviceRandom draw, const ir::RandomInput& input, const RandomStep& in, bool from_memory) {
    const Value made = device()->allocate(
        {ir::DType::kF32, {static_cast<int64_t>(draw.samples), static_cast<int64_t>(draw.elements)}});
    draw.numbers = static_cast<float*>(to_tensor(made).data_ptr());
    const auto key = static_cast<int64_t>(random_key(input, in));
    const Value state =
        device()->upload(to_value(at::tensor({key, static_cast<int64_t>(draw.first_sample)}, at::kLong)));
    draw.key = from_memory ? 0 : random_key(input, in);
    if (from_memory) {
      draw.first_sample = 0;
      draw.key_and_sample = static_cast<const uint64_t*>(to_tensor(state).data_ptr());
    }
    device()->fill(draw);
    return to_tensor(device()->download(made));
  }

  /// Compares bits, or with `ulps` the distance of nearby numbers.
  static void expect_same(const ir::RandomInput& input, DeviceRandom draw, double relative = 0) {
    const RandomStep in{.seed = 11, .step = 4};
    draw.samples = 3;
    draw.first_sample = 7;
    for (const uint64_t elements : {1, 5, 4096, 100003}) {
      draw.elements = elements;
      for (const bool from_memory : {false, true}) {
        const at::Tensor found = numbers(draw, input, in, from_memory);
        at::Tensor expected = at::empty_like(found);
        for (uint64_t s = 0; s < draw.samples; ++s) {
          fill(input, in, draw.first_sample + s, {expected.data_ptr<float>() + s * elements, elements});
        }
        if (relative == 0) {
          EXPECT_TRUE(found.equal(expected)) << elements << " elements";
        } else {
          EXPECT_TRUE(at::allclose(found, expected, relative, relative)) << elements << " elements";
        }
      }
    }
  }

 private:
  std::unique_ptr<StreamScope> scope_;
};

TEST_F(DeviceNumbers, UniformOnesHaveTheBitsOfTheProcessor) {
  expect_same({.of = Of::kUniform, .key = 1}, {.of = DeviceRandom::Of::kUniform});
}

TEST_F(DeviceNumbers, FactorsOfDropoutHaveTheBitsOfTheProcessor) {
  for (const double drop : {0.1, 0.5}) {
    expect_same({.of = Of::kBernoulli, .drop = drop, .key = 2}, {.of = DeviceRandom::Of::kBernoulli, .drop = drop});
  }
}

// Logarithm and cosine of a device may differ in the last bit of a double, hence of a float.
TEST_F(DeviceNumbers, NormalOnesDifferByARoundingAtMost) {
  expect_same({.of = Of::kNormal, .key = 3}, {.of = DeviceRandom::Of::kNormal}, 1.2e-7);
}

TEST_F(DeviceNumbers, CopiesKeepOrderBetweenStreams) {
  Device& on = *device();
  const at::Tensor host = at::randn({1 << 20});
  Value from = on.upload(to_value(host));
  for (int i = 0; i < 10; ++i) {
    const Value to = on.allocate(from->spec());
    const EventRef after[] = {on.record(Stream::kCompute), nullptr};
    const EventRef done = on.copy(Stream::kCopies, from, to, after);
    on.await(Stream::kCompute, done);
    from = to->plus(*to);
  }
  EXPECT_TRUE(to_tensor(on.download(from)).equal(host * 1024));
}

TEST_F(DeviceNumbers, StampsGrow) {
  Device& on = *device();
  const EventRef first = on.stamp(Stream::kCompute);
  const Value value = on.upload(to_value(at::randn({1 << 16})));
  const EventRef second = on.stamp(Stream::kCompute);
  on.synchronize();
  EXPECT_GE(on.ns_between(first, second), 0);
  EXPECT_GE(on.live_bytes(), value->bytes());
  EXPECT_GE(on.peak_bytes(), on.live_bytes());
}

}  // namespace
}  // namespace rannc::runtime
