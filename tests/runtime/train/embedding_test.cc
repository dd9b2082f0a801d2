// The trainer in a process that belongs to somebody else.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "codegen/bundle_writer.h"
#include "runtime/device/devices.h"
#include "runtime/engine/tensor.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/process_state.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using rannc::testing::changes_since;
using rannc::testing::process_state;
using rannc::testing::ProcessState;
using ::testing::IsEmpty;

class Embedded : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("rannc-embedded-" + std::to_string(::getpid()));
    fs::create_directory(folder_);
    bundle_ = path("bundle");
    codegen::write_bundle(rannc::testing::build_plan(rannc::testing::noise_model(ir::DType::kF32),
                                                     {.cuts = {2}, .replicas = {1, 2}, .micro_batches = {4, 4}}),
                          {}, bundle_)
        .value();
    auto random = at::detail::createCPUGenerator(3);
    const auto made = [&] { return to_value(at::randn({8, 6}, random, at::TensorOptions().dtype(at::kFloat))); };
    batch_ = {{"x", made()}, {"target", made()}};
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void train(std::vector<Device*> hardware = {}) const {
    TrainerOptions options;
    options.hardware = std::move(hardware);
    options.clip_norm = 1;
    const auto trainer = Trainer::open(bundle_, options).value();
    for (int i = 0; i < 3; ++i) trainer->step(batch_).value();
    trainer->evaluate(batch_).value();
    trainer->save(path("checkpoint")).value();
    trainer->load(path("checkpoint")).value();
    fs::remove_all(path("checkpoint"));
  }

  std::string bundle_;
  Batch batch_;

 private:
  fs::path folder_;
};

TEST_F(Embedded, ATrainerLeavesTheProcessAsItWas) {
  train();  // LibTorch starts threads of its own
  const ProcessState before = process_state();
  train();
  EXPECT_THAT(changes_since(before), IsEmpty());
}

void train_on_devices(const std::function<void(std::vector<Device*>)>& train) {
  const auto devices = devices_of(rannc::testing::test_device_plugin());
  train({devices[0].get(), devices[1].get()});
}

TEST_F(Embedded, DevicesLeaveTheProcessAsItWas) {
  const auto train = [this](std::vector<Device*> hardware) { this->train(std::move(hardware)); };
  train_on_devices(train);
  for (const char* const precision : {"medium", "high", "highest"}) {
    for (const bool cudnn : {true, false}) {
      at::globalContext().setFloat32MatmulPrecision(precision);
      at::globalContext().setAllowTF32CuDNN(cudnn);
      const ProcessState before = process_state();
      train_on_devices(train);
      EXPECT_THAT(changes_since(before), IsEmpty()) << precision;
    }
  }
  at::globalContext().setAllowTF32CuDNN(true);
}

TEST_F(Embedded, ProductsAreIeeeAsLongAsThereAreDevices) {
  const at::Context& context = at::globalContext();
  at::globalContext().setAllowTF32CuDNN(true);
  auto first = devices_of(rannc::testing::test_device_plugin());
  EXPECT_FALSE(context.allowTF32CuDNN());
  const auto second = first[0]->with_own_streams();
  first.clear();
  EXPECT_FALSE(context.allowTF32CuDNN());
}

// Settings of LibTorch's newer functions, which its older ones refuse to report.
TEST_F(Embedded, PrecisionsOfSingleOperatorsAreRestored) {
  at::Context& context = at::globalContext();
  const auto products = [&] { return context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL); };
  const auto before = products();
  context.setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, at::Float32Precision::TF32);
  {
    const auto devices = devices_of(rannc::testing::test_device_plugin());
    EXPECT_EQ(products(), at::Float32Precision::IEEE);
  }
  EXPECT_EQ(products(), at::Float32Precision::TF32);
  context.setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL, before);
}

}  // namespace
}  // namespace rannc::runtime
