// 20 or 200 steps of each optimizer against PyTorch's numbers, in tests/data/small_regression/trajectories.safetensors.
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
#include "tests/support/tier.h"
#include "tools/common/scratch.h"
#include "tools/compiler/compiler.h"

namespace rannc {
namespace {

namespace fs = std::filesystem;
using runtime::OptimizerKind;

constexpr int kSteps = 20, kLong = 200;

std::string folder() { return std::string(RANNC_SOURCE_DIR) + "/tests/data/small_regression"; }

std::map<std::string, at::Tensor> read_tensors(const std::string& path) {
  const auto file = runtime::SafetensorsFile::open(path).value();
  std::map<std::string, at::Tensor> tensors;
  for (const auto& entry : file.entries()) tensors.emplace(entry.name, runtime::read_tensor(file, entry).value());
  return tensors;
}

runtime::TrainerOptions options(OptimizerKind kind, double rate) {
  runtime::TrainerOptions options;
  static_cast<ir::UpdateRule&>(options.optimizer) = ir::default_rule(kind, rate);
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
  int steps = kSteps;
};

// As `grouped` there.
runtime::TrainerOptions grouped() {
  runtime::TrainerOptions grouped = with_all(options(OptimizerKind::kAdamW, 0.02));
  grouped.optimizer.weight_decay = 0.2;
  grouped.optimizer.grouping.no_decay = true;
  grouped.optimizer.grouping.average = 0.95;
  for (const char* text : {"left.*: rate=0.1x", "fine.*: optimizer=sgd, momentum=0.9, nesterov=true, rate=0.01",
                           "join.weight: optimizer=muon, match_rms_adamw=false, momentum=0.9"})
    grouped.optimizer.grouping.groups.push_back(ir::parse_group(text).value());
  return grouped;
}

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
  runtime::TrainerOptions amsgrad = options(OptimizerKind::kAdamW, 0.03);
  amsgrad.optimizer.weight_decay = 0.1;
  amsgrad.optimizer.amsgrad = true;
  runtime::TrainerOptions lion = options(OptimizerKind::kLion, 0.01);
  lion.optimizer.weight_decay = 0.1;
  runtime::TrainerOptions adafactor = options(OptimizerKind::kAdafactor, 0.05);
  adafactor.optimizer.weight_decay = 0.1;
  adafactor.clip_norm = 1.5;
  runtime::TrainerOptions muon = options(OptimizerKind::kMuon, 0.02);
  muon.optimizer.weight_decay = 0.1;
  muon.optimizer.match_rms_adamw = false;
  runtime::TrainerOptions plain_muon = options(OptimizerKind::kMuon, 0.01);
  plain_muon.optimizer.weight_decay = 0.1;
  plain_muon.optimizer.momentum = 0.9;
  plain_muon.optimizer.nesterov = false;
  plain_muon.optimizer.grouping.average = 0.9;
  return {{"sgd", options(OptimizerKind::kSgd, 0.05)},
          {"sgd-clip", clipped},
          {"momentum", momentum},
          {"momentum-all", with_all(momentum)},
          {"nesterov", nesterov},
          {"adam", options(OptimizerKind::kAdam, 0.01)},
          {"adam-all", with_all(adam)},
          {"adamw", adamw},
          {"adamw-all", with_all(unusual)},
          {"amsgrad", amsgrad, kLong},
          {"lion", lion, kLong},
          {"adafactor", adafactor, kLong},
          {"muon", muon, kLong},
          {"muon-all", with_all(plain_muon), kLong},
          {"groups", grouped(), kLong}};
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

/// How the eight samples of a step are computed.
struct Plan {
  const char* name;
  uint32_t devices = 1, stages = 1;
  std::vector<uint32_t> replicas = {};
  uint64_t micro_batches = 1;
  compiler::ShardOptimizer sharded = compiler::ShardOptimizer::kAuto;
  uint32_t mini_batches = 1;  ///< that are accumulated
  bool only_whole = false;    ///< all steps in tier "full" only, else twenty
};

class Trajectories : public ::testing::TestWithParam<Plan> {
 protected:
  std::string compile(const std::string& dtype) {
    const compiler::ReadOptions read{
        .loss = "mse(output=coarse,labels=c,weight=0.5)+mse(output=fine,labels=f,weight=2)",
        .precision = dtype == "float64" ? compiler::Precision::kFloat64 : compiler::Precision::kFloat32,
        .mini_batch = 8 / GetParam().mini_batches};
    const tools::RequestedPlan request =
        tools::requested_plan({.cluster = "local:" + std::to_string(GetParam().devices),
                               .shard_optimizer = GetParam().sharded,
                               .micro_batches = {GetParam().micro_batches},
                               .stages = GetParam().stages,
                               .replicas = GetParam().replicas,
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
  std::map<std::string, at::Tensor> train(const std::string& bundle, const Case& of, int steps) {
    const auto trainer = runtime::Trainer::open(bundle, of.options).value();
    runtime::Batch batch;
    for (const auto& [name, tensor] : batch_)
      batch.emplace(name.starts_with("x/") ? name.substr(2) : name, runtime::to_value(tensor));
    batch = runtime::to_model_types(trainer->plan(), batch);
    std::vector<runtime::Batch> batches(GetParam().mini_batches);
    const int64_t samples = 8 / GetParam().mini_batches;
    for (size_t i = 0; i < batches.size(); ++i) {
      for (const auto& [name, value] : batch) {
        const at::Tensor part = runtime::to_tensor(value).narrow(0, static_cast<int64_t>(i) * samples, samples);
        batches[i].emplace(name, runtime::to_value(part.contiguous()));
      }
    }
    at::Tensor losses = at::zeros({steps}, at::kDouble), norms = at::zeros({steps}, at::kDouble);
    for (int step = 0; step < steps; ++step) {
      const runtime::StepResult result = trainer->step(batches, runtime::Accumulated::kOneBatch).value();
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
        // A slice has all of a parameter as small as these.
        const size_t average = name.find("optimizer/average/");
        if (average != std::string::npos) found.emplace(name.substr(average + 10), tensor.to(at::kDouble));
      }
    }
    return found;
  }

  /// Muon rounds to bfloat16. In float32, and on another processor than that of the reference, its numbers are as exact
  /// as PyTorch's own in float32: 1e-7 becomes 1e-4 where an element rounds to its neighbour.
  bool is_exact(const std::string& dtype) const {
    const at::Tensor &x = reference_.at("probe/x"), gram = at::matmul(x, x.t());
    return dtype == "float64" && at::equal(reference_.at("probe/gram"), at::addmm(gram, gram, gram, -4.775, 2.0315));
  }

  /// Of at most `most` steps. Losses and norms alone if there are more.
  void expect_near(const std::string& dtype, double tolerance, int most) {
    const std::string bundle = compile(dtype);
    const bool exact = is_exact(dtype);
    for (const Case& one : cases()) {
      const int steps = std::min(one.steps, most);
      const double allowed =
          exact ? tolerance : std::max(tolerance, 5 * reference_.at(one.name + "/error32").item<double>());
      const bool averages = one.options.optimizer.grouping.average > 0;
      const auto found = train(bundle, one, steps);
      ASSERT_EQ(found.size(), (averages ? 25U : 13U) + (one.options.clip_norm > 0 ? 1 : 0))
          << "twelve parameters, their averages and the losses";
      for (const auto& [name, tensor] : found) {
        const bool by_step = name == "loss" || name == "norm";
        if (steps < one.steps && !by_step) continue;
        at::Tensor reference = reference_.at(one.name + "/" + name);
        if (by_step) reference = reference.narrow(0, 0, steps);
        if (tensor.dim() == 1) reference = reference.view(-1);
        ASSERT_EQ(tensor.sizes(), reference.sizes());
        const double off = (tensor - reference).norm().item<double>() / reference.norm().item<double>();
        EXPECT_LE(off, allowed) << one.name << ": " << name;
      }
    }
  }

  tools::Scratch scratch_;
  std::map<std::string, at::Tensor> reference_ = read_tensors(folder() + "/trajectories.safetensors"),
                                    batch_ = read_tensors(folder() + "/batch.safetensors");
};

TEST_P(Trajectories, InDoublePrecision) {
  expect_near("float64", 1e-10, rannc::testing::tests_everything() || !GetParam().only_whole ? kLong : kSteps);
}
TEST_P(Trajectories, InSinglePrecision) { expect_near("float32", 1e-5, kSteps); }

INSTANTIATE_TEST_SUITE_P(
    Plans, Trajectories,
    ::testing::Values(Plan{"one"},
                      Plan{.name = "stages", .devices = 2, .stages = 2, .micro_batches = 2, .only_whole = true},
                      Plan{.name = "uneven_replicas",
                           .devices = 3,
                           .stages = 2,
                           .replicas = {2, 1},
                           .micro_batches = 3,
                           .only_whole = true},
                      Plan{.name = "sharded",
                           .devices = 4,
                           .stages = 2,
                           .replicas = {2, 2},
                           .micro_batches = 3,
                           .sharded = compiler::ShardOptimizer::kOn},
                      Plan{.name = "accumulated",
                           .devices = 2,
                           .stages = 2,
                           .micro_batches = 2,
                           .mini_batches = 2,
                           .only_whole = true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rannc
