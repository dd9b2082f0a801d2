// Models of 16 bits: what is added up over samples, readers, micro-batches, replicas and steps is added in float32.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/internal/torch_value.h"
#include "runtime/train/optimizer.h"
#include "tests/runtime/engine/held_tensors.h"
#include "tests/runtime/support/local_run.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::testing {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr int64_t kSamples = 24;
constexpr double kDenominator = 24;
constexpr double kTolerance = 1e-5;  // of 24 terms in float32; in 16 bits a hundred times that

struct Case {
  const char* name;
  ir::Graph (*graph)(ir::DType);
  Tensors (*sample)(at::ScalarType);
  uint32_t cut;
};

Tensors floats(at::ScalarType type) {
  at::manual_seed(7);
  return {{"x", at::randn({1, 6}, type)}, {"target", at::randn({1, 6}, type)}};
}
Tensors tokens(at::ScalarType) {
  at::manual_seed(11);
  return {{"tokens", at::randint(0, 11, {1, 5}, at::kLong)}, {"labels", at::randint(0, 11, {1, 5}, at::kLong)}};
}
Tensors look_ups(at::ScalarType type) {
  at::manual_seed(13);
  return {{"tokens", at::randint(0, 11, {1, 5}, at::kLong)}, {"target", at::randn({1, 5, 4}, type)}};
}

class NarrowTypes : public ::testing::TestWithParam<std::tuple<Case, ir::DType>> {
 protected:
  /// Gradients of so many equal samples, each divided by the same number.
  Tensors gradients(int64_t samples, PlanSpec spec) const {
    const auto& [toy, dtype] = GetParam();
    Tensors batch = toy.sample(runtime::scalar_type(dtype));
    for (auto& [name, tensor] : batch) tensor = at::cat(std::vector<at::Tensor>(static_cast<size_t>(samples), tensor));
    return run_locally(build_plan(toy.graph(dtype), spec), batch, {kDenominator}).gradients;
  }
};
INSTANTIATE_TEST_SUITE_P(Toys, NarrowTypes,
                         ::testing::Combine(::testing::Values(Case{"SkipAndTie", skip_and_tie, floats, 3},
                                                              Case{"Tokens", token_model, tokens, 5},
                                                              Case{"LargeTable", large_table, look_ups, 1}),
                                            ::testing::Values(ir::DType::kF16, ir::DType::kBF16)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + std::string(str(std::get<1>(info.param)));
                         });

double distance(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

// One at a time, so that each micro-batch gives the same gradient: their sum is known.
TEST_P(NarrowTypes, GradientsOfMicroBatchesAreSummedInFloat32) {
  const Tensors one = gradients(1, {.micro_batches = {1}});
  const std::vector<uint32_t> singly(kSamples, 1), pairs(kSamples / 2, 2);
  const uint32_t cut = std::get<0>(GetParam()).cut;
  const PlanSpec specs[] = {
      {.micro_batches = singly},
      {.cuts = {cut}, .micro_batches = singly},
      {.cuts = {cut}, .micro_batches = singly, .early_backward = false, .recompute = true},
      {.micro_batches = singly, .split_backward = true},
      {.cuts = {cut}, .micro_batches = singly, .split_backward = true},
      {.replicas = {2}, .micro_batches = pairs},
      {.cuts = {cut}, .replicas = {2, 1}, .micro_batches = pairs, .recompute = true},
  };
  // Sums in the model's own type would not pass.
  const auto type = runtime::scalar_type(std::get<1>(GetParam()));
  double worst_narrow = 0;
  for (const auto& [name, part] : one) {
    at::Tensor narrow = at::zeros_like(part, type);
    for (int64_t i = 0; i < kSamples; ++i) narrow.add_(part.to(type));
    worst_narrow = std::max(worst_narrow, distance(narrow, part.to(at::kDouble) * kSamples));
  }
  ASSERT_GT(worst_narrow, 20 * kTolerance);
  for (const PlanSpec& spec : specs) {
    // A replica that has two samples of a micro-batch adds them within one gradient, in 16 bits.
    const bool exact = spec.cuts.empty() || spec.replicas.empty();
    for (const auto& [name, sum] : gradients(kSamples, spec)) {
      SCOPED_TRACE(::testing::Message() << name << " in " << spec.cuts.size() + 1 << " stages");
      ASSERT_EQ(sum.scalar_type(), at::kFloat);
      const at::Tensor expected = one.at(name).to(at::kDouble) * kSamples;
      ASSERT_GT(expected.norm().item<double>(), 0);
      EXPECT_LT(distance(sum, expected), exact ? kTolerance : 1e-2);
    }
  }
}

class NarrowUpdates : public ::testing::TestWithParam<runtime::OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, NarrowUpdates,
                         ::testing::Values(runtime::OptimizerKind::kSgd, runtime::OptimizerKind::kAdam,
                                           runtime::OptimizerKind::kAdamW, runtime::OptimizerKind::kLion),
                         [](const auto& info) { return std::string(runtime::str(info.param)); });

// Of a parameter that fills more than a slice; every step equals that of a float32 copy, rounded once.
TEST_P(NarrowUpdates, ReadTheSumAndRoundOnce) {
  runtime::OptimizerOptions options;
  options.kind = GetParam();
  options.learning_rate = 0.125;
  options.momentum = GetParam() == runtime::OptimizerKind::kSgd ? 0.75 : 0;
  options.weight_decay = 0.25;
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    at::manual_seed(3);
    const at::Tensor narrow = at::randn({3, 100'000}, type), gradient = at::randn({3, 100'000});
    HeldTensors program({narrow}, {gradient}), wide_program({narrow.to(at::kFloat)}, {gradient});
    runtime::StageOptimizer optimizer(options, program), wide(options, wide_program);
    for (uint64_t step = 0; step < 3; ++step) {
      for (const double scale : {1.0, 0.5}) {
        ASSERT_TRUE(optimizer.update(step, scale).ok());
        ASSERT_TRUE(wide.update(step, scale).ok());
        const at::Tensor& exact = runtime::to_tensor(wide_program.parameters()[0]);
        ASSERT_EQ(narrow.scalar_type(), type);
        EXPECT_TRUE(at::equal(narrow, exact.to(type))) << runtime::str(GetParam()) << " step " << step;
        exact.copy_(narrow);
        for (size_t s = 0; s < optimizer.states().size(); ++s) {
          const at::Tensor &own = runtime::to_tensor(optimizer.states()[s].value),
                           &of_wide = runtime::to_tensor(wide.states()[s].value);
          EXPECT_TRUE(at::equal(own, of_wide.to(type))) << "state " << s;
          of_wide.copy_(own);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rannc::testing
