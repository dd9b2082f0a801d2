// Twenty steps of each optimizer against PyTorch's numbers, in tests/data/small_regression/trajectories.safetensors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "codegen/bundle_writer.h"
#include "runtime/bundle/safetensors.h"
#include "runtime/engine/internal/torch_weights.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/trainer.h"
#include "tools/common/scratch.h"
#include "tools/compiler/compiler.h"

namespace rannc {
namespace {

namespace fs = std::filesystem;
using runtime::OptimizerKind;

constexpr int kSteps = 20;

std::string folder() { return std::string(RANNC_SOURCE_DIR) + "/tests/data/small_regression"; }

std::map<std::string, at::Tensor> read_tensors(const std::string& path) {
  const auto file = runtime::SafetensorsFile::open(path).value();
  std::map<std::string, at::Tensor> tensors;
  for (const auto& entry : file.entries()) tensors.emplace(entry.name, runtime::read_tensor(file, entry).value());
  return tensors;
}

runtime::TrainerOptions options(OptimizerKind kind, double rate) {
  runtime::TrainerOptions options;
  options.optimizer.kind = kind;
  options.optimizer.learning_rate = rate;
  return options;
}

runtime::TrainerOptions with_all(runtime::TrainerOptions options) {
  options.optimizer.warmup_steps = 4;
  options.optimizer.decay_steps = 14;
  options.clip_norm = 1.5;
  return options;
}

struct Case {
  std::string name;
  runtime::TrainerOptions options;
};

// As CASES in tests/data/trajectories.py.
std::vector<Case> cases() {
  runtime::TrainerOptions clipped = options(OptimizerKind::kSgd, 0.05);
  clipped.clip_norm = 1.5;
  runtime::TrainerOptions momentum = options(OptimizerKind::kSgd, 0.02);
  momentum.optimizer.momentum = 0.9;
  momentum.optimizer.weight_decay = 0.01;
  runtime::TrainerOptions nesterov = momentum;
  nesterov.optimizer.nesterov = true;
  runtime::TrainerOptions adam = options(OptimizerKind::kAdam, 0.03);
  adam.optimizer.weight_decay = 0.1;
  runtime::TrainerOptions adamw = options(OptimizerKind::kAdamW, 0.01);
  adamw.optimizer.weight_decay = 0.1;
  runtime::TrainerOptions unusual = options(OptimizerKind::kAdamW, 0.03);
  unusual.optimizer.beta1 = 0.8;
  unusual.optimizer.beta2 = 0.95;
  unusual.optimizer.epsilon = 1e-6;
  unusual.optimizer.weight_decay = 0.3;
  return {{"sgd", options(OptimizerKind::kSgd, 0.05)},
          {"sgd-clip", clipped},
          {"momentum", momentum},
          {"momentum-all", with_all(momentum)},
          {"nesterov", nesterov},
          {"adam", options(OptimizerKind::kAdam, 0.01)},
          {"adam-all", with_all(adam)},
          {"adamw", adamw},
          {"adamw-all", with_all(unusual)}};
}

// As `rates` in tests/data/trajectories.py.
TEST(Rates, AreThoseOfPyTorchsSchedulers) {
  using runtime::Decay;
  const std::map<std::string, runtime::OptimizerOptions> kinds = {
      {"cosine", {.decay_steps = 14}},
      {"linear", {.decay = Decay::kLinear, .decay_steps = 14, .decay_to = 0.25}},
      {"wsd", {.decay = Decay::kWsd, .decay_steps = 15, .decay_to = 0.25}},
      {"inverse-sqrt", {.decay = Decay::kInverseSqrt}},
      {"constant", {.decay = Decay::kConstant, .decay_steps = 14}},
  };
  const auto reference = read_tensors(folder() + "/trajectories.safetensors");
  for (const auto& [name, kind] : kinds) {
    runtime::OptimizerOptions options = kind;
    options.learning_rate = 0.03;
    options.warmup_steps = 4;
    EXPECT_EQ(str(options.decay), name);
    const double* const rates = reference.at("rates/" + name).const_data_ptr<double>();
    for (uint64_t update = 0; update < kSteps; ++update)
      EXPECT_NEAR(options.learning_rate_at(update), rates[update], 1e-16) << name << " " << update;
  }
}

class Trajectories : public testing::TestWithParam<uint32_t> {
 protected:
  std::string compile(const std::string& dtype) {
    const compiler::ReadOptions read{
        .loss = "mse(output=coarse,labels=c,weight=0.5)+mse(output=fine,labels=f,weight=2)",
        .precision = dtype == "float64" ? compiler::Precision::kFloat64 : compiler::Precision::kFloat32,
        .mini_batch = 8};
    const tools::RequestedPlan request = tools::requested_plan({.cluster = "local:" + std::to_string(GetParam()),
                                                                .micro_batches = {GetParam()},
                                                                .stages = GetParam(),
                                                                .costs = compiler::Costs::kAnalytic},
                                                               read)
                                             .value();
    const tools::PreparedModel model = tools::prepare_model(folder() + "/model.onnx", read).value();
    auto planned = tools::plan_prepared(model, tools::plan_options(request, model).value()).value();
    const std::string path = (fs::path(scratch_.path()) / (dtype + ".rannc")).string();
    codegen::write_bundle(planned.plan, {}, path).value();
    return path;
  }

  /// Losses, norms and last parameters by the names of the reference.
  std::map<std::string, at::Tensor> train(const std::string& bundle, const Case& of) {
    const auto trainer = runtime::Trainer::open(bundle, of.options).value();
    runtime::Batch batch;
    for (const auto& [name, tensor] : batch_)
      batch.emplace(name.starts_with("x/") ? name.substr(2) : name, runtime::to_value(tensor));
    batch = runtime::to_model_types(trainer->plan(), batch);
    at::Tensor losses = at::zeros({kSteps}, at::kDouble), norms = at::zeros({kSteps}, at::kDouble);
    for (int step = 0; step < kSteps; ++step) {
      const runtime::StepResult result = trainer->step(batch).value();
      losses[step] = result.loss;
      norms[step] = result.gradient_norm;
    }
    std::map<std::string, at::Tensor> found = {{"loss", losses}};
    if (of.options.clip_norm > 0) found.emplace("norm", norms);
    const fs::path checkpoint = fs::path(scratch_.path()) / "checkpoint";
    trainer->save(checkpoint.string()).value();
    for (const auto& entry : fs::directory_iterator(checkpoint)) {
      if (entry.path().extension() != ".safetensors") continue;
      for (const auto& [name, tensor] : read_tensors(entry.path().string())) {
        if (name.starts_with("parameter/")) found.emplace(name.substr(10), tensor.to(at::kDouble));
      }
    }
    return found;
  }

  void expect_near(const std::string& bundle, double tolerance) {
    for (const Case& one : cases()) {
      const auto found = train(bundle, one);
      ASSERT_GE(found.size(), 13U) << "twelve parameters and the losses";
      for (const auto& [name, tensor] : found) {
        const at::Tensor& reference = reference_.at(one.name + "/" + name);
        ASSERT_EQ(tensor.sizes(), reference.sizes());
        const double off = (tensor - reference).norm().item<double>() / reference.norm().item<double>();
        EXPECT_LE(off, tolerance) << one.name << ": " << name;
      }
    }
  }

  tools::Scratch scratch_;
  std::map<std::string, at::Tensor> reference_ = read_tensors(folder() + "/trajectories.safetensors"),
                                    batch_ = read_tensors(folder() + "/batch.safetensors");
};

TEST_P(Trajectories, InDoublePrecision) { expect_near(compile("float64"), 1e-10); }
TEST_P(Trajectories, InSinglePrecision) { expect_near(compile("float32"), 1e-5); }

INSTANTIATE_TEST_SUITE_P(Stages, Trajectories, testing::Values(1U, 2U));

}  // namespace
}  // namespace rannc
