// Gradients of a value with several readers: how the engine adds them in 16 bits, and what float32 adds would gain.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "tests/runtime/support/local_run.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::runtime {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int kLayers = 12;
constexpr int64_t kSamples = 4, kPositions = 32, kWidth = 64, kHeads = 4;

/// A value for several readers, whose gradients are added from the last reader to the first.
struct Readers : torch::autograd::Function<Readers> {
  static variable_list forward(AutogradContext* context, const at::Tensor& value, int64_t count, bool wide) {
    context->saved_data["wide"] = wide;
    variable_list copies;
    for (int64_t i = 0; i < count; ++i) copies.push_back(value.view_as(value));
    return copies;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::ScalarType type = gradients[0].scalar_type();
    const bool wide = context->saved_data["wide"].toBool();
    at::Tensor sum = wide ? gradients.back().to(at::kFloat) : gradients.back();
    for (size_t i = gradients.size() - 1; i-- > 0;) sum = sum + gradients[i].to(sum.scalar_type());
    return {sum.to(type), {}, {}};
  }
};

std::vector<at::Tensor> weights(at::ScalarType type) {
  at::manual_seed(1);
  std::vector<at::Tensor> made;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const auto& [rows, columns] : {std::pair(1, 1), {1, 1}, {1, 1}, {1, 1}, {1, 4}, {4, 1}}) {
      const double scale = 1 / std::sqrt(static_cast<double>(rows * kWidth));
      made.push_back((at::randn({rows * kWidth, columns * kWidth}) * scale).to(at::kBFloat16).to(type));
      made.back().requires_grad_();
    }
  }
  return made;
}

at::Tensor normalized(const at::Tensor& value) { return at::layer_norm(value, {kWidth}); }

/// Pre-normalized transformer layers: a value has two readers, a normalized one those of queries, keys and values.
at::Tensor run(at::Tensor value, const std::vector<at::Tensor>& w, bool wide) {
  const auto heads = [](const at::Tensor& all) {
    return all.view({kSamples, kPositions, kHeads, kWidth / kHeads}).transpose(1, 2);
  };
  for (size_t at = 0; at < w.size(); at += 6) {
    variable_list read = Readers::apply(value, 2, wide);
    const variable_list normal = Readers::apply(normalized(read[0]), 3, wide);
    const at::Tensor q = heads(at::matmul(normal[0], w[at])), k = heads(at::matmul(normal[1], w[at + 1]));
    const at::Tensor scores = at::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(kWidth / kHeads));
    const at::Tensor mixed = at::matmul(at::softmax(scores, -1), heads(at::matmul(normal[2], w[at + 2])));
    value = read[1] + at::matmul(mixed.transpose(1, 2).reshape({kSamples, kPositions, kWidth}), w[at + 3]);
    read = Readers::apply(value, 2, wide);
    value = read[1] + at::matmul(at::gelu(at::matmul(normalized(read[0]), w[at + 4])), w[at + 5]);
  }
  return value;
}

std::vector<at::Tensor> gradients(at::ScalarType type, bool wide) {
  const std::vector<at::Tensor> w = weights(type);
  const at::Tensor x = at::randn({kSamples, kPositions, kWidth}).to(at::kBFloat16).to(type);
  const at::Tensor target = at::randn({kSamples, kPositions, kWidth});
  const at::Tensor y = run(x, w, wide);
  at::mse_loss(y.to(at::promote_types(type, at::kFloat)), target.to(at::promote_types(type, at::kFloat))).backward();
  std::vector<at::Tensor> found;
  for (const at::Tensor& each : w) found.push_back(each.grad().to(at::kDouble));
  return found;
}

/// The mean over all weights of a gradient's error, relative to its norm.
double error_of(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& exact) {
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) sum += ((found[i] - exact[i]).norm() / exact[i].norm()).item<double>();
  return sum / static_cast<double>(found.size());
}

TEST(GradientAdds, OfTwoReadersRoundOnceInEitherType) {
  at::manual_seed(2);
  const at::Tensor a = at::randn({100000}).to(at::kBFloat16), b = at::randn({100000}).to(at::kBFloat16);
  EXPECT_TRUE(at::equal(a + b, (a.to(at::kFloat) + b.to(at::kFloat)).to(at::kBFloat16)));
}

/// The gradient of the bias, which is that of the value with three readers, of one sample.
double gradient_of(ir::DType type, const std::array<double, 3>& factors, const testing::PlanSpec& spec) {
  const at::Tensor x = at::ones({1, 6}, type == ir::DType::kF32 ? at::kFloat : at::kBFloat16);
  const ir::Plan plan = testing::build_plan(testing::three_readers(type, factors), spec);
  const at::Tensor found = testing::run_locally(plan, {{"x", x}}, {1}).gradients.at("b").to(at::kDouble);
  EXPECT_TRUE(found.eq(found[0]).all().item<bool>());
  return found[0].item<double>();
}

// From the last reader to the first, each add rounded to the model's type: 256 + 1 is 256 in bfloat16. Cuts between the
// readers change nothing, nor do recompute and split backward passes.
TEST(GradientAdds, OfThreeReadersRoundAfterEachAdd) {
  std::vector<testing::PlanSpec> specs = {{}, {.split_backward = true}};
  for (const std::vector<uint32_t>& cuts : std::vector<std::vector<uint32_t>>{{1}, {2}, {3}, {2, 3}, {1, 2, 3}}) {
    specs.push_back({.cuts = cuts});
    specs.push_back({.cuts = cuts, .recompute = true});
  }
  for (const testing::PlanSpec& spec : specs) {
    SCOPED_TRACE(::testing::PrintToString(spec.cuts));
    EXPECT_EQ(gradient_of(ir::DType::kBF16, {1, 1, 256}, spec), 256);
    EXPECT_EQ(gradient_of(ir::DType::kBF16, {256, 1, 1}, spec), 258);
    EXPECT_EQ(gradient_of(ir::DType::kF32, {1, 1, 256}, spec), 258);
  }
}

TEST(GradientAdds, InFloat32GainLittle) {
  const std::vector<at::Tensor> exact = gradients(at::kDouble, false);
  const double narrow = error_of(gradients(at::kBFloat16, false), exact);
  const double wide = error_of(gradients(at::kBFloat16, true), exact);
  fmt::print("error of gradients: {:.3f} % with 16-bit adds, {:.3f} % with float32 adds\n", 100 * narrow, 100 * wide);
  EXPECT_GT(narrow, 0x1p-9) << "bfloat16 rounds";
  EXPECT_NE(narrow, wide) << "adds of three gradients round differently";
  // A step has thousands of other roundings: the difference is noise, of either sign.
  EXPECT_NEAR(wide / narrow, 1, 0.1);
}

}  // namespace
}  // namespace rannc::runtime
