// Operators and their gradients on the test device: the same bits as on a CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/test_device/test_device.h"

namespace rannc::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Makes inputs on one device. The numbers are the same on each.
class Inputs {
 public:
  explicit Inputs(c10::Device device) : device_(device), generator_(at::make_generator<at::CPUGeneratorImpl>(7)) {}

  at::Tensor leaf(at::IntArrayRef sizes) {
    leaves_.push_back(plain(sizes).requires_grad_());
    return leaves_.back();
  }
  at::Tensor plain(at::IntArrayRef sizes) { return at::randn(sizes, generator_).to(device_); }
  at::Tensor indices(int64_t below, at::IntArrayRef sizes) {
    return at::randint(below, sizes, generator_, at::TensorOptions(at::kLong)).to(device_);
  }
  at::TensorOptions options() const { return at::TensorOptions(device_); }
  const Tensors& leaves() const { return leaves_; }

 private:
  c10::Device device_;
  at::Generator generator_;
  Tensors leaves_;
};

/// A function of inputs. Results that need gradients are differentiated.
struct Case {
  std::string name;
  std::function<Tensors(Inputs&)> results;
  friend std::ostream& operator<<(std::ostream& out, const Case& of) { return out << of.name; }
};

/// Results, then the gradients of the sum of squares of those that need some.
Tensors results_on(c10::Device device, const Case& of) {
  Inputs inputs(device);
  Tensors results = of.results(inputs);
  at::Tensor loss;
  for (at::Tensor& result : results) {
    if (!result.requires_grad()) continue;
    const at::Tensor part = result.pow(2).sum();
    loss = loss.defined() ? loss + part : part;
  }
  if (loss.defined()) torch::autograd::backward({loss}, {});
  for (const at::Tensor& leaf : inputs.leaves()) results.push_back(leaf.grad());
  return results;
}

class TestDeviceOperators : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { reset_test_device(); }
  void TearDown() override { EXPECT_EQ(take_race(), std::nullopt); }
};

TEST_P(TestDeviceOperators, EqualsTheCpu) {
  const Tensors expected = results_on(c10::kCPU, GetParam()), found = results_on(test_device(2), GetParam());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(expected[i].defined() && found[i].defined()) << i;
    EXPECT_EQ(found[i].device(), test_device(2)) << i;
    EXPECT_EQ(found[i].strides(), expected[i].strides()) << i;
    EXPECT_TRUE(at::equal(found[i].cpu(), expected[i])) << i << ": " << found[i].cpu() << expected[i];
  }
}

Tensors norm(Inputs& in) {
  const at::Tensor x = in.leaf({4, 6, 5}), weight = in.leaf({6}), bias = in.leaf({6});
  const at::Tensor mean = in.plain({6}), variance = in.plain({6}).abs(), last = in.leaf({5});
  return {at::batch_norm(x, weight, bias, mean, variance, true, 0.1, 1e-5, false),
          at::group_norm(x, 2, weight, bias),
          at::layer_norm(x, {5}, last, last),
          at::rms_norm(x, {5}, last),
          mean,
          variance};
}

Tensors attention(Inputs& in) {
  const at::Tensor q = in.leaf({2, 3, 5, 8}), k = in.leaf({2, 3, 5, 8}), v = in.leaf({2, 3, 5, 8});
  return {at::scaled_dot_product_attention(q, k, v), at::scaled_dot_product_attention(q, k, v, {}, 0, true),
          at::scaled_dot_product_attention(q, k, v, in.plain({5, 5})),
          at::scaled_dot_product_attention(q, k, v, in.leaf({5, 5})),
          std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, k, v))};
}

Tensors recurrent(Inputs& in) {
  const auto weights = [&](int64_t gates) {
    return Tensors{in.leaf({gates * 6, 4}), in.leaf({gates * 6, 6}), in.leaf({gates * 6}), in.leaf({gates * 6})};
  };
  const at::Tensor x = in.leaf({5, 2, 4}), state = in.leaf({1, 2, 6});
  const Tensors of_lstm = weights(4), of_gru = weights(3);
  const auto [y, last, cell] = at::lstm(x, Tensors{state, in.leaf({1, 2, 6})}, of_lstm, true, 1, 0, true, false, false);
  const auto [z, last_of_gru] = at::gru(x, state, of_gru, true, 1, 0, true, false, false);
  Tensors both_ways = weights(3);
  for (const at::Tensor& weight : weights(3)) both_ways.push_back(weight);
  const auto [u, last_of_both] = at::gru(x, in.leaf({2, 5, 6}), both_ways, true, 1, 0, true, true, true);
  return {y, last, cell, z, last_of_gru, u, last_of_both};
}

Tensors losses(Inputs& in) {
  const at::Tensor x = in.leaf({6, 4}), classes = in.indices(4, {6}), y = in.plain({6, 4});
  return {at::cross_entropy_loss(x, classes),
          at::cross_entropy_loss(x, classes, {}, at::Reduction::Sum, -100, 0.1),
          at::nll_loss(at::log_softmax(x, 1), classes),
          at::mse_loss(x, y),
          at::smooth_l1_loss(x, y),
          at::binary_cross_entropy_with_logits(x, y.sigmoid()),
          at::kl_div(at::log_softmax(x, 1), at::softmax(y, 1))};
}

Tensors pooling(Inputs& in) {
  const at::Tensor x = in.leaf({2, 3, 8, 8});
  return {at::max_pool2d(x, {2, 2}),
          at::avg_pool2d(x, {2, 2}),
          at::adaptive_avg_pool2d(x, {1, 1}),
          at::adaptive_avg_pool2d(x, {3, 3}),
          at::upsample_bilinear2d(x, {16, 16}, false),
          at::upsample_nearest2d(x, {16, 16})};
}

Tensors shapes(Inputs& in) {
  const at::Tensor x = in.leaf({4, 6}), y = in.leaf({4, 6});
  return {at::cat({x, y}, 1),
          at::stack({x, y}),
          x.t().contiguous().view({-1}),
          at::where(x > 0, x, y),
          x.masked_fill(y > 0, 3.0),
          x.flip(0).narrow(0, 1, 2),
          x.unfold(1, 2, 2).clone(),
          x.expand({3, 4, 6}) * 2,
          at::pad(x, {1, 1}),
          x.roll(1, 0),
          at::tril(x),
          x.split(3, 1)[1].contiguous(),
          at::einsum("ij,kj->ik", {x, y})};
}

Tensors reductions(Inputs& in) {
  const at::Tensor x = in.leaf({4, 6});
  const auto [largest, where] = x.topk(2);
  const auto [sorted, order] = x.sort();
  return {largest,
          where,
          sorted,
          order,
          x.cumsum(0),
          x.var(1),
          x.mean(0),
          x.amax(1),
          at::linalg_vector_norm(x),
          at::logsumexp(x, 1),
          at::argmax(x, 1),
          at::nonzero(x > 0)};
}

Tensors activations(Inputs& in) {
  const at::Tensor x = in.leaf({4, 6});
  return {at::relu(x),     at::silu(x),       at::gelu(x),        at::mish(x), at::hardswish(x), at::elu(x),
          at::softplus(x), at::softmax(x, 1), at::log_sigmoid(x), at::glu(x),  x.sigmoid(),      x.tanh()};
}

Tensors indexing(Inputs& in) {
  const at::Tensor x = in.leaf({6, 4}), i = in.indices(6, {3}), rows = i.unsqueeze(1).expand({3, 4});
  const at::Tensor ones = at::ones({3, 4}, in.options());
  return {x.index({i}),
          x.index_select(0, i),
          at::index_put(x, {i}, ones),
          x.index_add(0, i, ones),
          x.gather(0, rows),
          at::scatter_add(x, 0, rows, ones),
          at::one_hot(i, 6)};
}

Tensors embedding(Inputs& in) {
  return {at::embedding(in.leaf({10, 4}), in.indices(10, {3, 5})),
          at::embedding(in.leaf({10, 4}), in.indices(10, {3, 5}), 2)};
}

Tensors sparse(Inputs& in) {
  const at::Tensor rows = at::embedding_sparse_backward(in.plain({15, 4}), in.indices(10, {15}), 10, -1, false);
  const at::Tensor merged = rows.coalesce();
  at::Tensor dense = in.plain({10, 4});
  dense.add_(rows, 0.5);
  return {merged.indices(), merged.values(), rows.to_dense(), dense, (rows + rows).to_dense()};
}

Tensors convolution(Inputs& in) {
  const at::Tensor image = in.leaf({2, 3, 8, 8}), line = in.leaf({2, 4, 9});
  const at::Tensor y = at::conv1d(line, in.leaf({6, 4, 3}), in.leaf({6}));
  return {at::conv2d(image, in.leaf({4, 3, 3, 3}), in.leaf({4}), 1, 1), y, at::conv_transpose1d(y, in.leaf({6, 4, 3})),
          at::conv1d(line, in.leaf({4, 1, 3}), {}, 1, 1, 1, 4)};
}

Tensors matrices(Inputs& in) {
  const at::Tensor x = in.leaf({2, 5, 7});
  return {x.matmul(in.leaf({2, 7, 3})), x.matmul(in.leaf({7, 3})), at::linear(x, in.leaf({3, 7}), in.leaf({3})),
          at::addmm(in.leaf({3}), in.leaf({5, 7}), in.leaf({7, 3})), at::bmm(x, x.transpose(1, 2))};
}

Tensors types(Inputs& in) {
  const at::Tensor x = in.leaf({6, 4}), narrow = x.to(at::kBFloat16);
  return {
      narrow.matmul(narrow.t()).to(at::kFloat), x.to(at::kHalf).to(at::kFloat), at::arange(5, in.options()),
      at::full({2}, 3, in.options()),           at::eye(3, in.options()),       at::linspace(0, 1, 5, in.options())};
}

Tensors elementwise(Inputs& in) {
  const at::Tensor x = in.leaf({5, 7}), y = in.leaf({5, 7});
  return {x * y + 2, x / y.abs().add(1), x - 3, -x, x.exp(), x.abs().sqrt(), at::minimum(x, y), x.clamp(-1, 1), x > y};
}

Tensors in_place(Inputs& in) {
  at::Tensor x = at::arange(12, in.options().dtype(at::kFloat)).view({3, 4});
  x.select(1, 2).add_(5);
  x.t().mul_(x.t());
  x.narrow(0, 1, 1).zero_();
  const at::Tensor grown = x.clone().resize_({4, 4}).narrow(0, 0, 3).contiguous();
  at::Tensor sum = at::empty({0}, in.options()), shared = at::empty({2, 2}, in.options());
  at::add_out(sum, x, x);
  shared.set_(x);
  shared.add_(1);
  return {x, grown, sum, shared};
}

Tensors optimizers(Inputs& in) {
  const at::Tensor p = in.plain({6, 4}), g = in.plain({6, 4}), m = at::zeros_like(p), v = at::zeros_like(p);
  const at::Tensor step = at::ones({}, in.options()), host_step = at::ones({});
  at::_fused_adamw_(p, g, m, v, {}, step, 0.1, 0.9, 0.99, 0.01, 1e-8, false, false);
  at::_fused_adam_(p, g, m, v, {}, host_step, 0.1, 0.9, 0.99, 0.01, 1e-8, false, false);
  at::_fused_sgd_(p, g, m, 0.01, 0.9, 0.1, 0, false, false, false);
  at::_foreach_add_(Tensors{p, g}, 1.0);
  at::_foreach_mul_(Tensors{p}, Tensors{g});
  const Tensors norms = at::_foreach_norm(Tensors{p, g}), sums = at::_foreach_add(Tensors{p}, Tensors{g});
  return {p, g, m, v, norms[0], norms[1], sums[0]};
}

INSTANTIATE_TEST_SUITE_P(, TestDeviceOperators,
                         ::testing::Values(Case{"Elementwise", elementwise}, Case{"Matrices", matrices},
                                           Case{"Convolution", convolution}, Case{"Norm", norm},
                                           Case{"Attention", attention}, Case{"Recurrent", recurrent},
                                           Case{"Losses", losses}, Case{"Pooling", pooling}, Case{"Shapes", shapes},
                                           Case{"Reductions", reductions}, Case{"Activations", activations},
                                           Case{"Indexing", indexing}, Case{"Embedding", embedding},
                                           Case{"Sparse", sparse}, Case{"Types", types}, Case{"InPlace", in_place},
                                           Case{"Optimizers", optimizers}),
                         [](const auto& tested) { return tested.param.name; });

TEST(TestDevice, NumbersReachTheHost) {
  const at::Tensor x = at::full({3}, 2, at::TensorOptions(test_device()));
  EXPECT_EQ(x.sum().item<int64_t>(), 6);
  EXPECT_TRUE(at::equal(x, x));
}

TEST(TestDevice, TensorsOfSeveralDevicesAreRefused) {
  const at::Tensor x = at::ones({3}, at::TensorOptions(test_device()));
  EXPECT_THROW(x + at::ones({3}), c10::Error);
  EXPECT_THROW(x + at::ones({3}, at::TensorOptions(test_device(1))), c10::Error);
  EXPECT_TRUE(at::equal((x + at::ones({})).cpu(), at::full({3}, 2.0)));
}

TEST(TestDevice, ViewsShareMemory) {
  at::Tensor x = at::zeros({2, 3}, at::TensorOptions(test_device()));
  const at::Tensor row = x[1], column = x.t()[2];
  row.fill_(5);
  EXPECT_TRUE(at::equal(column.cpu(), at::tensor({0.0F, 5.0F})));
  EXPECT_TRUE(row.is_alias_of(x));
}

}  // namespace
}  // namespace rannc::testing
