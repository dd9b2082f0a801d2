// What a step does with gradients: the numbers of one call of LibTorch over whole tensors, and of its clipping.
#include "runtime/train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "runtime/aten/torch_types.h"
#include "runtime/engine/allocation_meter.h"
#include "runtime/train/gradient_norms.h"
#include "tests/runtime/cuda/host_update.h"
#include "tests/runtime/engine/held_tensors.h"
#include "tests/runtime/support/forwarding_device.h"

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

/// A device whose kernel for optimizer steps works in host memory.
class KernelDevice final : public rannc::testing::ForwardingDevice {
 public:
  KernelDevice() : ForwardingDevice(nullptr) {}
  bool is_asynchronous() const override { return true; }
  std::unique_ptr<runtime::Device> with_own_streams() const override { return nullptr; }
  bool update(const runtime::DeviceUpdate& update) override {
    rannc::testing::update_on_host(update);
    ++updates;
    return true;
  }
  int updates = 0;
};

/// The largest difference of two tensors in units in the last place of numbers of these sizes.
double ulps(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sizes) {
  if (a.numel() == 0) return 0;
  const std::map<at::ScalarType, int> digits = {
      {at::kDouble, 53}, {at::kFloat, 24}, {at::kHalf, 11}, {at::kBFloat16, 8}};
  const at::Tensor exponent = std::get<1>(at::frexp(sizes)) - digits.at(a.scalar_type());
  const at::Tensor difference = (a.to(at::kDouble) - b.to(at::kDouble)).abs();
  return (difference / at::exp2(exponent.to(at::kDouble))).max().item<double>();
}

at::Tensor size_of(const at::Tensor& tensor) { return tensor.to(at::kDouble).abs(); }

/// A step by LibTorch's kernels and one by ours, from the same numbers.
class TwoSteps {
 public:
  TwoSteps(const runtime::OptimizerOptions& options, const std::vector<at::Tensor>& start)
      : options_(options),
        theirs_(copies(start), start),
        ours_(copies(start), start),
        expected_(options, theirs_),
        found_(options, ours_, {}, {}, device_) {}

  void update(uint64_t step, double scale) {
    std::vector<at::Tensor> gradients, before;
    std::vector<uint32_t> all;
    for (uint32_t i = 0; i < ours_.parameters().size(); ++i) {
      all.push_back(i);
      before.push_back(parameter(theirs_, i).clone());
      gradients.push_back(at::randn(before[i].sizes(), runtime::sum_type(before[i].scalar_type())));
      parameter(ours_, i).copy_(before[i]);
    }
    for (HeldTensors* const each : {&theirs_, &ours_}) {
      runtime::Values values;
      for (const at::Tensor& gradient : gradients) values.push_back(runtime::to_value(gradient));
      each->set_gradients(all, std::move(values));
    }
    // Terms may cancel, so that a result is smaller than what was rounded.
    std::vector<at::Tensor> terms;
    for (uint32_t i = 0; i < before.size(); ++i) terms.push_back(size_of(gradients[i]) + size_of(before[i]));
    for (size_t s = 0; s < expected_.states().size(); ++s) {
      const runtime::OptimizerState& state = expected_.states()[s];
      state_of(found_, s).copy_(state_of(expected_, s));
      if (state.name == "momentum" || state.name == "exp_avg")
        terms[state.parameter] += size_of(state_of(expected_, s));
    }
    ASSERT_TRUE(expected_.update(step, scale).ok());
    ASSERT_TRUE(found_.update(step, scale).ok());
    const bool divides = options_.kind == OptimizerKind::kAdam || options_.kind == OptimizerKind::kAdamW;
    // LibTorch's kernels may leave out the rounding of each of four products, which is half a unit.
    const double most = options_.nesterov ? 2 : 1;
    for (uint32_t i = 0; i < before.size(); ++i) {
      // Adam divides the mean of gradients by their size. Nesterov's momentum adds the gradient twice.
      const at::Tensor moved = options_.learning_rate * (divides ? at::full_like(terms[i], 4) : 2 * terms[i]);
      EXPECT_LE(ulps(parameter(ours_, i), parameter(theirs_, i), size_of(before[i]) + moved), most) << i;
    }
    for (size_t s = 0; s < expected_.states().size(); ++s) {
      const runtime::OptimizerState& state = expected_.states()[s];
      const bool squares = state.name.find("_sq") != std::string::npos;
      const at::Tensor& wanted = state_of(expected_, s);
      EXPECT_LE(ulps(state_of(found_, s), wanted, squares ? size_of(wanted) : terms[state.parameter]), 1) << state.name;
    }
    EXPECT_EQ(device_.updates, step + 1);
  }

 private:
  static at::Tensor parameter(const HeldTensors& of, uint32_t i) { return runtime::to_tensor(of.parameters()[i]); }
  static at::Tensor state_of(const runtime::StageOptimizer& optimizer, size_t s) {
    return runtime::to_tensor(optimizer.states()[s].value);
  }

  const runtime::OptimizerOptions options_;
  KernelDevice device_;
  HeldTensors theirs_, ours_;
  runtime::StageOptimizer expected_, found_;
};

TEST_P(Updates, OfAKernelAgreeToOneUnitInTheLastPlace) {
  runtime::OptimizerOptions options;
  options.kind = GetParam();
  options.grouping.average = 0.75;
  const bool adam = GetParam() == OptimizerKind::kAdam || GetParam() == OptimizerKind::kAdamW;
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const bool plain : {false, true}) {
      options.weight_decay = plain ? 0 : 0.25;
      options.momentum = GetParam() == OptimizerKind::kSgd && !plain ? 0.75 : 0;
      options.nesterov = options.momentum > 0;
      options.amsgrad = adam && !plain;
      for (const double scale : {1.0, 0.37}) {
        SCOPED_TRACE(::testing::Message() << at::toString(type) << (plain ? ", plain" : "") << ", scale " << scale);
        at::manual_seed(3);
        TwoSteps both(options, {at::randn({70, 1001}, type), at::randn({0, 3}, type), at::randn({}, type),
                                at::randn({5, 257}, type)});
        for (uint64_t step = 0; step < 4; ++step) both.update(step, scale);
      }
    }
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
