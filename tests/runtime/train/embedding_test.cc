// The trainer in a process that belongs to somebody else.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/bundle_writer.h"
#include "runtime/data/prefetch.h"
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

/// Returns the exit status of a forked process that runs `job`, which returns whether all is well.
int status_of_fork(const std::function<bool()>& job) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // a wait for a thread that does not exist ends with SIGALRM
    ::_exit(job() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(Embedded, AForkedProcessLeavesTheTrainerAlone) {
  auto trainer = Trainer::open(bundle_, {}).value();
  trainer->step(batch_).value();
  trainer->start_save(path("checkpoint")).value();
  const auto refuses = [](const auto& result) {
    return !result.ok() && result.diagnostic().message.starts_with("the trainer belongs to process ");
  };
  const auto use_and_destroy = [&] {
    const bool well = refuses(trainer->step(batch_)) && refuses(trainer->evaluate(batch_)) &&
                      refuses(trainer->gradients()) && refuses(trainer->save(path("other"))) &&
                      refuses(trainer->finish_save()) && refuses(trainer->all_agree(true)) &&
                      refuses(trainer->reschedule(trainer->plan().clone()));
    trainer.reset();
    return well;
  };
  EXPECT_EQ(status_of_fork(use_and_destroy), 0);
  trainer->finish_save().value();
  EXPECT_TRUE(fs::exists(path("checkpoint")));
  trainer->step(batch_).value();
}

/// Mini-batches without inputs.
class NoInputs final : public Dataset {
 public:
  Result<Batch> batch(uint64_t) const override { return Batch(); }
  std::string describe() const override { return "none"; }
  std::optional<uint64_t> steps_per_epoch() const override { return std::nullopt; }
};

TEST(EmbeddedSamples, AForkedProcessReadsWithoutTheThread) {
  for (int i = 0; i < 20; ++i) {
    auto samples = prefetched(std::make_unique<NoInputs>());
    EXPECT_TRUE(samples->batch(0).ok());
    EXPECT_EQ(status_of_fork([&] {
                const bool well = samples->batch(1).ok() && samples->batch(7).ok();
                samples.reset();
                return well;
              }),
              0);
    EXPECT_TRUE(samples->batch(1).ok());
  }
}

}  // namespace
}  // namespace rannc::runtime
