// The plug-in of the test devices.
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numbers>

#include "runtime/execute/random.h"
#include "tests/runtime/cuda/host_update.h"
#include "tests/support/test_device/device_memory.h"
#include "tests/support/test_device/fake_nccl.h"
#include "tests/support/test_device/recording.h"
#include "tests/support/test_device/test_device.h"
#include "tests/support/test_device/thread_state.h"

namespace rannc::testing {
namespace {

using runtime::DeviceRandom;
using runtime::DeviceUpdate;
using Four = std::array<float, 4>;

uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
float uniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

/// The numbers of `rannc::runtime::fill` of four elements.
Four numbers_of(const DeviceRandom& draw, const std::array<uint32_t, 4>& bits) {
  Four numbers;
  switch (draw.of) {
    case DeviceRandom::Of::kUniform:
      std::transform(bits.begin(), bits.end(), numbers.begin(), uniform);
      break;
    case DeviceRandom::Of::kNormal:
      for (size_t i = 0; i < 4; i += 2) {
        const double radius = std::sqrt(-2 * std::log(double{uniform(bits[i])} + 0x1p-24));
        const double angle = 2 * std::numbers::pi * uniform(bits[i + 1]);
        numbers[i] = static_cast<float>(radius * std::cos(angle));
        numbers[i + 1] = static_cast<float>(radius * std::sin(angle));
      }
      break;
    case DeviceRandom::Of::kBernoulli:
      const auto limit = static_cast<uint64_t>(draw.drop * 4294967296.0);
      const auto kept = static_cast<float>(1.0 / (1.0 - draw.drop));
      for (size_t i = 0; i < 4; ++i) numbers[i] = bits[i] < limit ? 0.0F : kept;
  }
  return numbers;
}

void fill_on_host(const DeviceRandom& draw, uint64_t key, uint64_t first_sample, float* to) {
  for (uint64_t i = 0; i < draw.samples; ++i) {
    const uint64_t sample = first_sample + i;
    float* row = to + i * draw.elements;
    for (uint64_t j = 0; j < draw.elements; j += 4) {
      const uint64_t block = j / 4;
      const Four four = numbers_of(
          draw, runtime::philox({low(block), high(block), low(sample), high(sample)}, {low(key), high(key)}));
      std::copy_n(four.begin(), std::min<uint64_t>(4, draw.elements - j), row + j);
    }
  }
}

size_t bytes_of(DeviceUpdate::Number number) {
  if (number == DeviceUpdate::Number::kFloat64) return sizeof(double);
  return number == DeviceUpdate::Number::kFloat32 ? sizeof(float) : sizeof(float) / 2;
}

std::atomic<bool> updates_by_kernel{false};
std::atomic<uint64_t> updates_so_far{0};

class TestDevicePlugin final : public runtime::DevicePlugin {
 public:
  std::string_view type() const override { return "test"; }
  uint32_t count() const override { return kTestDevices; }
  runtime::DeviceFacts facts(uint32_t index) const override {
    TORCH_CHECK(index < count(), "there is no test device ", index);
    return {fmt::format("test device {}", index), kTestDeviceBytes, kTestDeviceKhz};
  }

  void fill(const DeviceRandom& draw) override {
    const DeviceMemory& memory = DeviceMemory::instance();
    TORCH_CHECK(memory.contains(draw.numbers), "the numbers to fill are not on a test device");
    const c10::Stream stream = current_stream(memory.device_of(draw.numbers));
    Streams& streams = Streams::instance();
    const size_t bytes = draw.samples * draw.elements * sizeof(float);
    std::vector<Touch> touches{{draw.numbers, bytes, true}};
    if (draw.key_and_sample != nullptr) touches.push_back({draw.key_and_sample, 2 * sizeof(uint64_t), false});
    streams.begin(stream, "fill", touches);
    Recording* recording = streams.recording(stream);
    if (recording != nullptr) recording->save_bytes(draw.numbers, bytes);
    const auto* given = static_cast<const uint64_t*>(memory.shadow(draw.key_and_sample));
    fill_on_host(draw, given != nullptr ? given[0] : draw.key, given != nullptr ? given[1] : draw.first_sample,
                 static_cast<float*>(memory.shadow(draw.numbers)));
    if (recording != nullptr) recording->add([this, draw] { fill(draw); });
  }

  bool update(const DeviceUpdate& update) override {
    if (!updates_by_kernel || update.count == 0) return false;
    const DeviceMemory& memory = DeviceMemory::instance();
    const size_t size = bytes_of(update.number), of_gradient = std::max<size_t>(size, sizeof(float));
    std::vector<Touch> touches;
    std::vector<DeviceUpdate::Tensor> shadows;
    const auto shadow = [&](void* address, size_t elements) -> void* {
      if (address == nullptr) return nullptr;
      touches.push_back({address, elements * size, true});
      return memory.shadow(address);
    };
    for (size_t t = 0; t < update.count; ++t) {
      const DeviceUpdate::Tensor& tensor = update.tensors[t];
      DeviceUpdate::Tensor& own = shadows.emplace_back();
      own.elements = tensor.elements;
      own.parameter = shadow(tensor.parameter, tensor.elements);
      for (int s = 0; s < DeviceUpdate::kStates; ++s) own.states[s] = shadow(tensor.states[s], tensor.elements);
      own.average = shadow(tensor.average, tensor.elements);
      touches.push_back({tensor.gradient, tensor.elements * of_gradient, false});
      own.gradient = memory.shadow(tensor.gradient);
    }
    const c10::Stream stream = current_stream(memory.device_of(update.tensors[0].parameter));
    Streams::instance().begin(stream, "update", touches);
    TORCH_CHECK(Streams::instance().recording(stream) == nullptr, "optimizer steps are not recorded");
    DeviceUpdate here = update;
    here.tensors = shadows.data();
    update_on_host(here);
    ++updates_so_far;
    return true;
  }

  std::unique_ptr<runtime::RecordedWork> record(const std::function<void()>& work, uint64_t pool) override {
    return Recording::of(work, pool);
  }

  const runtime::NcclTable* nccl() override { return &fake_nccl(); }
};

}  // namespace

void use_update_kernel(bool use) { updates_by_kernel = use; }
uint64_t kernel_updates() { return updates_so_far; }

runtime::DevicePlugin& test_device_plugin() {
  use_test_device();
  static auto* const plugin = new TestDevicePlugin;
  return *plugin;
}

}  // namespace rannc::testing
