// Training by the kernels of GPUs, whose twins the test device has.
#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include <atomic>
#include <string_view>

#include "runtime/device/torch_device.h"
#include "tests/runtime/device/device_training.h"
#include "tests/runtime/support/forwarding_device.h"

namespace rannc::runtime {
namespace {

using rannc::testing::PlanSpec;

/// The test device under the type of a GPU, with or without flash attention.
class Gpu final : public rannc::testing::ForwardingDevice {
 public:
  Gpu(std::unique_ptr<Device> device, bool flash) : ForwardingDevice(std::move(device)), flash_(flash) {}
  ir::DeviceType type() const override { return ir::DeviceType::kCuda; }
  bool has_flash_attention() const override { return flash_; }
  std::unique_ptr<Device> with_own_streams() const override {
    return std::make_unique<Gpu>(target().with_own_streams(), flash_);
  }

 private:
  const bool flash_;
};

std::atomic<size_t> flash_calls, efficient_calls;

/// Counts the calls of attention's kernels in all threads.
class AttentionCalls {
 public:
  AttentionCalls() {
    flash_calls = efficient_calls = 0;
    at::RecordFunctionCallback callback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
      const std::string_view name = call.name();
      for (const char* end : {"", "_backward"}) {
        flash_calls += name == "aten::_scaled_dot_product_flash_attention" + std::string(end);
        efficient_calls += name == "aten::_scaled_dot_product_efficient_attention" + std::string(end);
      }
      return nullptr;
    });
    handle_ = at::addGlobalCallback(callback.scopes({at::RecordScope::FUNCTION}));
  }
  AttentionCalls(const AttentionCalls&) = delete;
  AttentionCalls& operator=(const AttentionCalls&) = delete;
  ~AttentionCalls() { at::removeCallback(handle_); }

 private:
  at::CallbackHandle handle_;
};

const DeviceModel kAttention = {"attention", rannc::testing::attention_model, {5, 16}, 9};

class GpuKernels : public DeviceTraining {
 protected:
  /// Trains on the twin of a GPU and on the processor. `tolerance`: relative, of losses and gradients.
  void expect_numbers_of_the_processor(ir::DType dtype, at::ScalarType type, bool flash, double tolerance) {
    const std::vector<PlanSpec> specs = {
        {.micro_batches = {8}},
        {.cuts = {kAttention.cut}, .micro_batches = {3, 3, 2}},
        {.cuts = {kAttention.cut}, .micro_batches = {4, 4}, .recompute = true},
        {.cuts = {kAttention.cut}, .micro_batches = {4, 4}, .split_backward = true},
    };
    for (const PlanSpec& spec : specs) {
      SCOPED_TRACE(::testing::Message() << ir::str(dtype) << ", " << spec.cuts.size() + 1 << " stages");
      const std::string path = bundle(kAttention, spec, dtype);
      Gpu gpu(devices_[0]->with_own_streams(), flash);
      const auto found = Trainer::open(path, options({&gpu})).value(),
                 expected = Trainer::open(path, options({})).value();
      for (uint64_t step = 0; step < kSteps; ++step) {
        const Batch batch = batch_of(kAttention, 7 + step, type);
        const double loss = found->step(batch).value().loss, wanted = expected->step(batch).value().loss;
        EXPECT_NEAR(loss, wanted, tolerance * std::abs(wanted)) << "step " << step;
      }
      const auto gradients = found->gradients().value();
      for (const auto& [name, value] : expected->gradients().value()) {
        const at::Tensor wanted = to_tensor(value).to(at::kDouble),
                         gradient = to_tensor(gradients.at(name)).to(at::kDouble);
        const double most = wanted.abs().max().item<double>();
        EXPECT_LE((gradient - wanted).abs().max().item<double>(), tolerance * most) << name;
      }
      EXPECT_TRUE(found->unrecorded_stages().empty());
    }
  }
};

// By the bits of 16-bit types: each kernel rounds its results once.
TEST_F(GpuKernels, TrainByFlashAttention) {
  const AttentionCalls calls;
  expect_numbers_of_the_processor(ir::DType::kBF16, at::kBFloat16, true, 0x1p-7);
  expect_numbers_of_the_processor(ir::DType::kF16, at::kHalf, true, 0x1p-9);
  EXPECT_GT(flash_calls, 0U);
  EXPECT_EQ(efficient_calls, 0U);
}

TEST_F(GpuKernels, TrainWithoutFlashAttention) {
  const AttentionCalls calls;
  expect_numbers_of_the_processor(ir::DType::kBF16, at::kBFloat16, false, 0x1p-7);
  expect_numbers_of_the_processor(ir::DType::kF32, at::kFloat, true, 1e-5);
  EXPECT_EQ(flash_calls, 0U);
  EXPECT_GT(efficient_calls, 0U);
}

TEST_F(GpuKernels, TrainByProducts) {
  const AttentionCalls calls;
  expect_numbers_of_the_processor(ir::DType::kF64, at::kDouble, true, 1e-10);
  EXPECT_EQ(flash_calls + efficient_calls, 0U);
}

/// The plug-in of the test devices with other facts.
class Reported final : public DevicePlugin {
 public:
  explicit Reported(bool flash) : flash_(flash) {}
  std::string_view type() const override { return plugin_.type(); }
  uint32_t count() const override { return plugin_.count(); }
  DeviceFacts facts(uint32_t index) const override {
    DeviceFacts facts = plugin_.facts(index);
    facts.flash_attention = flash_;
    return facts;
  }
  void fill(const DeviceRandom& random_input) override { plugin_.fill(random_input); }
  bool update(const DeviceUpdate& update) override { return plugin_.update(update); }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work, uint64_t pool) override {
    return plugin_.record(work, pool);
  }
  const NcclTable* nccl() override { return plugin_.nccl(); }

 private:
  DevicePlugin& plugin_ = rannc::testing::test_device_plugin();
  const bool flash_;
};

TEST_F(GpuKernels, AreThoseThatThePluginReports) {
  for (const bool flash : {false, true}) {
    Reported plugin(flash);
    EXPECT_EQ(make_torch_device(plugin, 0)->kernels().flash_attention, flash);
  }
  EXPECT_FALSE(cpu().kernels().flash_attention);
}

}  // namespace
}  // namespace rannc::runtime
