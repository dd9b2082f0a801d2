// What profiles count: operations of products, and times of calls without those that they make.
#include "tools/measure/product_work.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tools/measure/timed_calls.h"

namespace rannc::tools {
namespace {

double flops = 0, own_ns = 0, counting_ns = 0, outer_ns = 0, products = 0;
std::map<std::string, double> own_of;

struct Sink {
  struct Note {
    double flops = 0;
  };
  static void begin(const at::RecordFunction& call, Note& note) { note.flops = product_flops(call); }
  static int64_t aside_ns() { return 0; }
  static void end(const at::RecordFunction& call, const Note& note, int64_t own) {
    flops += note.flops;
    if (is_product(call.name())) ++products;
    own_ns += static_cast<double>(own);
    own_of[call.name()] += static_cast<double>(own);
  }
  static void counted(const CountedCall& call) {
    counting_ns += static_cast<double>(call.counting_ns);
    outer_ns += static_cast<double>(call.outer_ns);
  }
};

template <class F>
double flops_of(F&& work) {
  flops = own_ns = counting_ns = outer_ns = products = 0;
  own_of.clear();
  const TimedCalls<Sink> calls;
  work();
  return flops;
}

// Output [8, 12, h, w], each from 12 groups' channels of a 3 x 2 window.
TEST(ProductWork, CountsConvolutionsByTheirPlaces) {
  const at::Tensor input = at::randn({8, 6, 17, 20}).requires_grad_(),
                   weight = at::randn({12, 3, 3, 2}).requires_grad_();
  at::Tensor output;
  const double forward = flops_of([&] {
    output = at::conv2d(input, weight, {}, {2, 1}, {1, 0}, {1, 2}, /*groups=*/2);
  });
  const double expected = 2.0 * static_cast<double>(output.numel()) * 3 * 3 * 2;
  EXPECT_EQ(forward, expected);
  EXPECT_EQ(flops_of([&] { output.sum().backward(); }), 2 * expected) << "by input and by weight";
  const at::Tensor frozen = at::conv2d(input.detach(), weight, {}, {2, 1}, {1, 0}, {1, 2}, 2);
  EXPECT_EQ(flops_of([&] { frozen.sum().backward(); }), expected) << "by weight alone";
}

TEST(ProductWork, CountsTransposedConvolutionsByTheirInputs) {
  const at::Tensor input = at::randn({4, 6, 9, 9}).requires_grad_(), weight = at::randn({6, 5, 3, 3}).requires_grad_();
  at::Tensor output;
  const double forward = flops_of([&] { output = at::conv_transpose2d(input, weight, {}, 2); });
  EXPECT_EQ(forward, 2.0 * static_cast<double>(input.numel()) * 5 * 3 * 3);
  EXPECT_EQ(flops_of([&] { output.sum().backward(); }), 2 * forward);
}

TEST(ProductWork, CountsMatricesOnce) {
  const at::Tensor a = at::randn({4, 7, 9}).requires_grad_(), weight = at::randn({5, 9}).requires_grad_(),
                   bias = at::randn({5}).requires_grad_();
  at::Tensor output;
  EXPECT_EQ(flops_of([&] { output = at::linear(a, weight, bias); }), 2.0 * 4 * 7 * 9 * 5);
  EXPECT_EQ(flops_of([&] { output.sum().backward(); }), 2 * 2.0 * 4 * 7 * 9 * 5);
  EXPECT_EQ(flops_of([&] { at::matmul(a.detach(), at::randn({4, 9, 3})); }), 2.0 * 4 * 7 * 9 * 3);
}

TEST(ProductWork, CountsAttention) {
  const auto made_up = [] { return at::randn({2, 3, 64, 16}).requires_grad_(); };
  const at::Tensor query = made_up(), key = made_up(), value = made_up();
  const double whole = 2 * 2.0 * 2 * 3 * 64 * 64 * 16;
  at::Tensor output;
  EXPECT_EQ(flops_of([&] { output = at::scaled_dot_product_attention(query, key, value); }), whole);
  EXPECT_GT(products, 0);
  EXPECT_EQ(flops_of([&] { output.sum().backward(); }), 2.5 * whole);
  EXPECT_EQ(flops_of([&] { at::scaled_dot_product_attention(query, key, value, {}, 0, /*is_causal=*/true); }),
            whole / 2);
}

TEST(TimedCalls, OwnTimesAndCountingAreAllOfTheOuterCalls) {
  const at::Tensor a = at::randn({64, 64}).requires_grad_();
  flops_of([&] {
    for (int i = 0; i < 50; ++i) at::linear(at::relu(a), a).sum().backward();
  });
  EXPECT_GT(own_of["aten::linear"], 0);
  EXPECT_GT(own_of["aten::mm"], 0);
  EXPECT_GT(counting_ns, 0);
  EXPECT_NEAR((own_ns + counting_ns) / outer_ns, 1, 1e-9);
}

// A product of which each call has far more to do than the one that makes it.
TEST(TimedCalls, TakeCalleesOut) {
  const at::Tensor a = at::randn({256, 256});
  flops_of([&] {
    for (int i = 0; i < 20; ++i) at::matmul(a, a);
  });
  EXPECT_LT(own_of["aten::matmul"], own_of["aten::mm"]);
}

}  // namespace
}  // namespace rannc::tools
