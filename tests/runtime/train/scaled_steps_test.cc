// Training with loss scales where the model itself casts a float32 parameter to float16, against LibTorch's tape.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "codegen/bundle_writer.h"
#include "ir/text/text.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/support/plan_builder.h"

namespace rannc::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::PlanSpec;

constexpr int64_t kSamples = 12, kWidth = 16;
constexpr int kSteps = 24;

at::Tensor parameter() {
  at::manual_seed(1);
  return at::randn({kWidth, kWidth}) * 0.25;
}

at::Tensor x() {
  at::manual_seed(2);
  return at::randn({kSamples, kWidth}).to(at::kHalf);
}

at::Tensor target() {
  at::manual_seed(3);
  return at::randn({kSamples, kWidth});
}

/// The squared error of x w16, where w16 is a float16 copy of w, summed over all elements.
ir::Graph cast_parameter() {
  ir::Graph graph = ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f16[batch,16] samples 0
input %target: f32[batch,16] samples 0
parameter %w: f32[16,16]
#0 %w16: f16[16,16] = core.cast(%w) {dtype = !f16}
#1 %h: f16[batch,16] samples 0 = core.matmul(%x, %w16)
#2 %y: f32[batch,16] samples 0 = core.cast(%h) {dtype = !f32}
#3 %l: f32[] partial = core.mse_sum(%y, %target)
inputs [%x, %target]
outputs [%y]
loss %l weight 0x1p+0
)",
                                    "cast.rir")
                        .value();
  const at::Tensor w = parameter();
  const auto* const bytes = static_cast<const std::byte*>(w.const_data_ptr());
  graph.set_data(graph.find("w"), ir::TensorData::in_memory({bytes, bytes + w.nbytes()}));
  return graph;
}

struct Steps {
  std::string skipped;  ///< by step: "s" if it updated nothing
  std::vector<double> losses;
  std::string failure;
};

/// The same under LibTorch's tape with the rules of a loss scale.
Steps on_tape(double learning_rate) {
  Steps steps;
  LossScale scale;
  at::Tensor w = parameter().requires_grad_();
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor y = at::matmul(x(), w.to(at::kHalf)).to(at::kFloat);
    const at::Tensor loss = at::mse_loss(y, target(), at::Reduction::Sum);
    (loss * scale.scale).backward();
    const at::Tensor gradient = w.grad() / scale.scale;
    const bool finite = at::isfinite(gradient).all().item<bool>() && at::isfinite(loss).item<bool>();
    if (!finite && scale.is_least()) {
      steps.failure = "step " + std::to_string(step);
      return steps;
    }
    scale.count(finite);
    steps.skipped += finite ? "." : "s";
    steps.losses.push_back(loss.item<double>());
    if (finite) w = (w.detach() - gradient * learning_rate).requires_grad_();
    w.mutable_grad().reset();
  }
  return steps;
}

Steps trained(const PlanSpec& spec, double learning_rate) {
  const std::string path = (fs::temp_directory_path() / ("rannc-scaled-" + std::to_string(::getpid()))).string();
  codegen::write_bundle(testing::build_plan(cast_parameter(), spec), {.replace = true}, path).value();
  TrainerOptions options;
  options.optimizer = {{.kind = OptimizerKind::kSgd, .learning_rate = learning_rate}};
  const auto trainer = Trainer::open(path, options).value();
  fs::remove_all(path);
  Steps steps;
  for (int step = 0; step < kSteps; ++step) {
    Batch batch{{"x", to_value(x())}};
    batch.emplace("target", to_value(target()));
    Result<StepResult> result = trainer->step(batch);
    if (!result.ok()) {
      steps.failure = result.diagnostic().message;
      return steps;
    }
    const StepResult done = std::move(result).value();
    steps.skipped += done.skipped ? "s" : ".";
    steps.losses.push_back(done.loss);
  }
  return steps;
}

TEST(ScaledSteps, AreThoseOfATape) {
  const Steps expected = on_tape(1e-3);
  EXPECT_THAT(expected.skipped, HasSubstr("s."));
  EXPECT_LT(expected.losses.back(), 0.5 * expected.losses.front());
  const Steps found = trained({.micro_batches = {12}}, 1e-3);
  EXPECT_EQ(found.skipped, expected.skipped);
  EXPECT_EQ(found.losses, expected.losses);
}

// The sums over micro-batches and replicas are of float32, so that each step's loss differs by the rounding of products
// alone.
TEST(ScaledSteps, OfEveryPlanFindAScale) {
  const Steps expected = on_tape(1e-3);
  for (const PlanSpec& spec : std::vector<PlanSpec>{{.micro_batches = {4, 4, 4}},
                                                    {.cuts = {2}, .micro_batches = {6, 6}},
                                                    {.cuts = {2}, .micro_batches = {6, 6}, .recompute = true},
                                                    {.cuts = {2}, .replicas = {2, 1}, .micro_batches = {6, 6}},
                                                    {.replicas = {3}, .micro_batches = {4, 4, 4}, .sharded = true}}) {
    const Steps found = trained(spec, 1e-3);
    EXPECT_EQ(found.failure, "");
    EXPECT_THAT(found.skipped, HasSubstr("s."));
    EXPECT_NEAR(found.losses.back() / expected.losses.back(), 1, 0.05);
  }
}

// The first update is so large that products overflow in the following steps, whatever the scale.
TEST(ScaledSteps, OfALearningRateThatDivergesFailAtTheSmallestScale) {
  const Steps expected = on_tape(4);
  ASSERT_NE(expected.failure, "");
  EXPECT_THAT(expected.skipped, HasSubstr("ss"));
  const Steps found = trained({.micro_batches = {12}}, 4);
  EXPECT_EQ(found.skipped, expected.skipped);
  EXPECT_THAT(found.failure, HasSubstr(expected.failure + ": the loss is "));
  EXPECT_THAT(found.failure, HasSubstr(" at a loss scale of 1, the smallest"));
}

}  // namespace
}  // namespace rannc::runtime
