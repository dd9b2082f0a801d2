// What a step does with gradients: the numbers of one call of LibTorch over whole tensors, and of its clipping.
#include "runtime/train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "runtime/engine/allocation_meter.h"
#include "runtime/train/gradient_norms.h"
#include "tests/runtime/engine/held_tensors.h"

namespace rannc::testing {
namespace {

using runtime::OptimizerKind;

std::vector<at::Tensor> made_up(at::ScalarType type) {
  // More than a slice, of no vector's length; many that fit in one together; none at all; a number.
  std::vector<at::Tensor> tensors = {at::randn({700, 1001}, type), at::randn({262'144}, type), at::randn({0, 3}, type),
                                     at::randn({}, type)};
  for (int64_t i = 1; i < 40; ++i) tensors.push_back(at::randn({i, 257}, type));
  return tensors;
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors, double factor = 1) {
  std::vector<at::Tensor> found;
  for (const at::Tensor& tensor : tensors) found.push_back(factor == 1 ? tensor.clone() : tensor * factor);
  return found;
}

class Updates : public ::testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, Updates,
                         ::testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW,
                                           OptimizerKind::kLion),
                         [](const auto& info) { return std::string(runtime::str(info.param)); });

// Bit for bit: of a parameter neither its place in a slice nor its company is seen.
TEST_P(Updates, ScaledGradientsAreThoseOfAScaledCopy) {
  runtime::OptimizerOptions options;
  options.kind = GetParam();
  options.momentum = GetParam() == OptimizerKind::kSgd ? 0.75 : 0;
  options.weight_decay = 0.25;
  constexpr double kScale = 0.37;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    at::manual_seed(3);
    const std::vector<at::Tensor> start = made_up(type), gradients = made_up(type), kept = copies(gradients);
    HeldTensors scaled(copies(start), gradients), whole(copies(start), copies(gradients, kScale));
    runtime::StageOptimizer optimizer(options, scaled), of_whole(options, whole);
    for (uint64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(optimizer.update(step, kScale).ok());
      ASSERT_TRUE(of_whole.update(step).ok());
    }
    for (size_t i = 0; i < start.size(); ++i) {
      EXPECT_TRUE(at::equal(runtime::to_tensor(scaled.parameters()[i]), runtime::to_tensor(whole.parameters()[i])))
          << i;
      EXPECT_TRUE(at::equal(gradients[i], kept[i])) << "others may hold gradient " << i;
    }
    for (size_t s = 0; s < optimizer.states().size(); ++s) {
      EXPECT_TRUE(
          at::equal(runtime::to_tensor(optimizer.states()[s].value), runtime::to_tensor(of_whole.states()[s].value)))
          << optimizer.states()[s].name << " of " << optimizer.states()[s].parameter;
    }
    EXPECT_FALSE(at::equal(runtime::to_tensor(scaled.parameters()[0]), start[0]));
  }
}

// Bit for bit: slices that are cut as shares are see no difference to whole parameters.
TEST_P(Updates, OfSharesAreThoseOfWholeParameters) {
  runtime::OptimizerOptions options;
  options.kind = GetParam();
  options.momentum = GetParam() == OptimizerKind::kSgd ? 0.75 : 0;
  options.weight_decay = 0.25;
  constexpr size_t kReplicas = 3;
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const double scale : {1.0, 0.37}) {
      at::manual_seed(3);
      const std::vector<at::Tensor> start = made_up(type), gradients = made_up(type);
      HeldTensors whole(copies(start), copies(gradients)), parts(copies(start), copies(gradients));
      std::vector<ir::ParameterExtent> elements;
      for (const at::Tensor& each : start) elements.push_back({each.numel()});
      std::vector<std::unique_ptr<runtime::StageOptimizer>> shares;
      for (size_t r = 0; r < kReplicas; ++r)
        shares.push_back(std::make_unique<runtime::StageOptimizer>(
            options, parts, std::vector<bool>(),
            ir::share_of_replica(ir::optimizer_shares(elements, {}, kReplicas), r)));
      runtime::StageOptimizer of_whole(options, whole);
      for (uint64_t step = 0; step < 3; ++step) {
        ASSERT_TRUE(of_whole.update(step, scale).ok());
        for (const auto& share : shares) ASSERT_TRUE(share->update(step, scale).ok());
      }
      for (size_t i = 0; i < start.size(); ++i) {
        EXPECT_TRUE(at::equal(runtime::to_tensor(parts.parameters()[i]), runtime::to_tensor(whole.parameters()[i])))
            << i;
      }
    }
  }
}

/// Bytes that an optimizer of Adam allocates for its state.
int64_t state_bytes(HeldTensors& program, runtime::StageOptimizer::Share share) {
  const runtime::AllocationMeter meter;
  const runtime::StageOptimizer optimizer({{.kind = OptimizerKind::kAdam}}, program, {}, std::move(share));
  return meter.live_bytes();
}

TEST(Shares, DivideTheBytesOfStateByTheReplicas) {
  const std::vector<at::Tensor> start = made_up(at::kFloat);
  HeldTensors program(copies(start), copies(start));
  std::vector<ir::ParameterExtent> elements;
  for (const at::Tensor& each : start) elements.push_back({each.numel()});
  const int64_t whole = state_bytes(program, std::nullopt);
  constexpr int64_t kStates = 2, kCut = kStates * 4 * ir::kShareCut;
  for (const size_t replicas : {2, 3, 4, 7}) {
    int64_t all = 0;
    for (size_t r = 0; r < replicas; ++r) {
      const int64_t own = state_bytes(program, ir::share_of_replica(ir::optimizer_shares(elements, {}, replicas), r));
      EXPECT_LT(std::abs(own - whole / static_cast<int64_t>(replicas)), kCut) << r << " of " << replicas;
      all += own;
    }
    EXPECT_EQ(all, whole) << "each element has its state once";
  }
}

double norm_of(const std::vector<at::Tensor>& gradients) {
  HeldTensors program(gradients, gradients);
  std::vector<uint32_t> all(gradients.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<double> squares = runtime::squared_norms(program, all);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

TEST(Norms, AreThoseOfDoublePrecision) {
  at::manual_seed(5);
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    std::vector<at::Tensor> gradients = made_up(type);
    // A long one of equal numbers, whose roundings do not cancel: one sum in float32 would be off by 1e-3 and more.
    if (type == at::kFloat) gradients.push_back(at::full({40'000'000}, 0.1F));
    double squares = 0;
    for (const at::Tensor& gradient : gradients) squares += gradient.to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(norm_of(gradients) / std::sqrt(squares), 1, type == at::kDouble ? 1e-14 : 1e-6) << type;
  }
}

// Numbers that float32 holds, but whose squares it does not.
TEST(Norms, HoldWhereSquaresDoNot) {
  for (const double size : {1e-30, 1e-21, 1e20, 1e30})
    EXPECT_NEAR(norm_of({at::full({5000}, size, at::kFloat)}) / (size * std::sqrt(5000)), 1, 1e-6) << size;
  EXPECT_EQ(norm_of({at::zeros({5000})}), 0);
  EXPECT_FALSE(std::isfinite(norm_of({at::full({5000}, INFINITY)})));
  EXPECT_TRUE(std::isnan(norm_of({at::full({5000}, NAN)})));
}

}  // namespace
}  // namespace rannc::testing
