/// Training on the test device, compared with training on the processor.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "codegen/bundle_writer.h"
#include "runtime/device/devices.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"
#include "tests/support/test_device/test_device.h"

namespace rannc::runtime {

struct DeviceModel {
  const char* name;
  ir::Graph (*graph)(ir::DType);
  std::vector<int64_t> sample;  ///< shape of x and target; empty: tokens and labels
  uint32_t cut;                 ///< first task of a second stage
};

inline const DeviceModel kModels[] = {
    {"skips and a tied parameter", rannc::testing::skip_and_tie, {6}, 4},
    {"tokens", rannc::testing::token_model, {}, 5},
    {"dropout", rannc::testing::dropout_model, {6}, 2},
    {"noise", rannc::testing::noise_model, {6}, 2},
    {"running statistics", rannc::testing::norm_model, {3, 4}, 2},
    {"sums over samples", rannc::testing::sums_model, {6}, 4},
};

inline Batch batch_of(const DeviceModel& model, uint64_t seed, at::ScalarType type = at::kDouble) {
  constexpr int64_t kSamples = 8;
  const at::Generator own = at::detail::createCPUGenerator(seed);  // several threads may draw at a time
  if (model.sample.empty()) {
    return {{"tokens", to_value(at::randint(7, {kSamples, 5}, own, at::kLong))},
            {"labels", to_value(at::randint(7, {kSamples, 5}, own, at::kLong))}};
  }
  std::vector<int64_t> shape = model.sample;
  shape.insert(shape.begin(), kSamples);
  return {{"x", to_value(at::randn(shape, own, type))}, {"target", to_value(at::randn(shape, own, type))}};
}

class DeviceTraining : public ::testing::Test {
 protected:
  static constexpr int kSteps = 5;  // one is run normally, one recorded, the others replayed

  void SetUp() override {
    rannc::testing::reset_test_device();
    devices_ = devices_of(rannc::testing::test_device_plugin());
    folder_ = std::filesystem::temp_directory_path() / ("rannc-device-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    EXPECT_EQ(rannc::testing::take_race(), std::nullopt);
  }

  std::string bundle(ir::Plan plan) {
    const std::string path = file(std::to_string(bundles_++));
    codegen::write_bundle(plan, {}, path).value();
    return path;
  }
  std::string bundle(const DeviceModel& model, const testing::PlanSpec& spec, ir::DType dtype = ir::DType::kF64) {
    return bundle(rannc::testing::build_plan(model.graph(dtype), spec));
  }

  static TrainerOptions options(std::vector<Device*> hardware, const std::string& engine = {}) {
    TrainerOptions made;
    made.optimizer = {{.kind = OptimizerKind::kAdamW, .learning_rate = 0.01}};
    made.engine = engine;
    made.hardware = std::move(hardware);
    return made;
  }

  std::vector<Device*> one() const { return {devices_[0].get()}; }
  std::vector<Device*> two() const { return {devices_[0].get(), devices_[1].get()}; }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  static void expect_same(const Value& found, const Value& expected, const std::string& what) {
    EXPECT_TRUE(to_tensor(found).is_cpu()) << what;
    EXPECT_TRUE(to_tensor(found).equal(to_tensor(expected))) << what;
  }
  static void expect_same(const StepResult& found, const StepResult& expected) {
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.gradient_norm, expected.gradient_norm);
    ASSERT_EQ(found.outputs.size(), expected.outputs.size());
    for (const auto& [name, output] : expected.outputs) expect_same(found.outputs.at(name), output, name);
  }
  static void expect_same_state(Trainer& found, Trainer& expected, const Batch& batch) {
    const auto gradients = found.gradients().value(), wanted = expected.gradients().value();
    ASSERT_EQ(gradients.size(), wanted.size());
    for (const auto& [name, gradient] : wanted) expect_same(gradients.at(name), gradient, name);
    expect_same(found.evaluate(batch).value(), expected.evaluate(batch).value());
  }
  /// Steps of one and the same model on devices and on the processor.
  static void expect_same_steps(Trainer& found, Trainer& expected, const DeviceModel& model,
                                at::ScalarType type = at::kDouble) {
    for (int step = 0; step < kSteps; ++step) {
      SCOPED_TRACE(::testing::Message() << "step " << step);
      const Batch batch = batch_of(model, 7 + static_cast<uint64_t>(step), type);
      expect_same(found.step(batch).value(), expected.step(batch).value());
      if (::testing::Test::HasFailure()) return;
    }
    expect_same_state(found, expected, batch_of(model, 3, type));
  }

  std::vector<std::shared_ptr<Device>> devices_;

 private:
  std::filesystem::path folder_;
  int bundles_ = 0;
};

}  // namespace rannc::runtime
