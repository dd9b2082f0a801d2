// Whatever kernels and orders in memory are chosen, values and gradients are the same.
#include <gtest/gtest.h>

#include <random>

#include "ir/graph/memory_format.h"
#include "ir/op/op.h"
#include "ir/verify.h"
#include "passes/planning/choose_kernels.h"
#include "tests/passes/torch/fused_case.h"

namespace rannc {
namespace {

/// Random but for copies, which are cheap: all mixtures come up.
class DrawnTimes final : public passes::KernelTimes {
 public:
  explicit DrawnTimes(uint64_t seed) : seed_(seed) {}
  std::optional<double> ns(const ir::Graph& graph, TaskId task, const std::vector<ir::GradientRole>&) const override {
    std::mt19937_64 random(seed_ * 1000 + task.index());
    const bool copies = graph.op(task).family == "memory";
    return 1 + static_cast<double>(random() % (copies ? 30 : 1000));
  }

 private:
  uint64_t seed_;
};

// Residuals, a concatenation, a gate that stretches, statistics of the batch and running ones, all kinds of pooling.
const std::string kNet = R"(input x [batch,3,9,8] samples 0
parameter w0 [8,3,3,3]
parameter w1 [8,8,1,1]
parameter w2 [8,4,3,3]
parameter w3 [4,16,1,1]
parameter b3 [4]
parameter s [8]
parameter o [8]
parameter s4 [4]
parameter o4 [4]
constant mean [8] 0 0.1 0.2 0 0 0.1 0 0
constant variance [8] 1 1 2 1 1 0.5 1 1
constant m4 [4] 0 0.1 0.2 0
constant v4 [4] 1 1 2 1
parameter rows [5,4]
a = conv(x, w0) {pads=[1,1,1,1]}
n = batch_norm(a, s, o, mean, variance) {training=true}
r = relu(n)
p = max_pool(r) {kernel=[3,3], strides=[2,2], pads=[1,1,1,1]}
c = conv(p, w1)
t = tanh(c)
d = add(t, p)
g = adaptive_avg_pool(d) {size=[1,1]}
h = sigmoid(g)
e = mul(d, h)
k = conv(e, w2) {groups=2, pads=[1,1,1,1]}
j = concat(k, e) {axis=1}
l = conv(j, w3, b3) {strides=[2,1]}
q = batch_norm(l, s4, o4, m4, v4)
u = avg_pool(q) {kernel=[2,2], count_include_pad=true}
v = adaptive_avg_pool(u) {size=[1,1]}
f = reshape(v) {shape=[batch,4]}
y = linear(f, rows)
outputs y d
)";

TEST(Kernels, DoNotChangeNumbers) {
  const ir::Graph graph = test::short_graph(kNet);
  const auto expected = test::numbers_of(graph, 3);
  ASSERT_TRUE(expected.ok()) << expected.diagnostic().message;
  uint32_t copied = 0, linear = 0, last = 0, as_axes_say = 0, weights = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ir::Graph chosen = graph.clone();
    passes::PassContext context;
    const auto format = seed % 2 == 0 ? passes::WeightFormat::kStored : passes::WeightFormat::kChannelsLast;
    const passes::ChooseKernels pass(std::make_shared<DrawnTimes>(seed), format);
    ASSERT_TRUE(pass.run(chosen, context).ok());
    ASSERT_TRUE(ir::verify(chosen).empty());
    for (const TaskId task : chosen.tasks()) {
      copied += chosen.op(task).family == "memory" ? 1 : 0;
      linear += chosen.attributes(task).text(ir::kAlgorithm) == "linear" ? 1 : 0;
      if (!ir::has_memory_format(chosen, task)) continue;
      ++(chosen.attributes(task).flag(ir::kChannelsLast) ? last : as_axes_say);
    }
    for (const char* weight : {"w0.last", "w2.last"}) weights += chosen.find(weight).valid() ? 1 : 0;
    const auto found = test::numbers_of(chosen, 3);
    ASSERT_TRUE(found.ok()) << found.diagnostic().message;
    EXPECT_LE(test::difference(*expected, *found), 1e-12) << "seed " << seed;
  }
  EXPECT_GT(weights, 50U);
  for (const uint32_t count : {copied, linear, last, as_axes_say}) EXPECT_GT(count, 100U) << "all kinds come up";
}

}  // namespace
}  // namespace rannc
