// What tasks are priced by.
#include "partition/model/model_costs.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "partition/cost/analytic.h"

namespace rannc::partition {
namespace {

/// A cast to bf16, a product of bf16, a lookup by integers, a product of f32.
ir::Graph model() {
  return ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,64] samples 0
input %i: i64[batch] samples 0
parameter %w: bf16[64,64]
parameter %v: f32[64,64]
#0 %c: bf16[batch,64] samples 0 = core.cast(%x) {to = bf16}
#1 %p: bf16[batch,64] samples 0 = core.linear(%c, %w)
#2 %q: f32[batch,64] samples 0 = core.gather(%v, %i) {axis = 0}
#3 %r: f32[batch,64] samples 0 = core.linear(%q, %v)
inputs [%x, %i]
outputs [%p, %r]
)",
                         "t.rir")
      .value();
}

TEST(TaskFacts, HaveTheTypeOfTheFirstFloatOperand) {
  const ir::Graph graph = model();
  const auto roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  const ir::DType types[] = {ir::DType::kF32, ir::DType::kBF16, ir::DType::kF32, ir::DType::kF32};
  for (uint32_t task = 0; task < 4; ++task) {
    EXPECT_EQ(task_facts(graph, TaskId(task), roles, 8, {}).value().dtype, types[task]) << task;
  }
}

TEST(TaskFacts, NameTheKernels) {
  const ir::Graph graph = ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,3,8,8] samples 0
input %q: f32[batch,2,5,4] samples 0
input %h: bf16[batch,2,5,8] samples 0
input %k: bf16[batch,1,5,5] samples 0
parameter %w: f32[6,3,3,3]
parameter %s: f32[6]
#0 %c: f32[batch,6,6,6] samples 0 = core.conv(%x, %w)
#1 %n: f32[batch,6,6,6] samples 0 = core.batch_norm(%c, %s, %s, %s, %s)
#2 %l: f32[batch,6,6,6] samples 0 = core.batch_norm(%c, %s, %s, %s, %s) {channels_last = true}
#3 %a: f32[batch,2,5,4] samples 0 = core.attention(%q, %q, %q) {scale = 0x1p-1, order = [0, 1, 2, 3]}
#4 %t: f32[batch,2,4,5] samples 0 = core.permute(%q) {perm = [0, 1, 3, 2]}
#5 %m: f32[batch,2,5,5] samples 0 = core.matmul(%q, %t)
#6 %f: bf16[batch,2,5,8] samples 0 = core.attention(%h, %h, %h) {scale = 0x1p-1, order = [0, 1, 2, 3], causal = true}
#7 %g: bf16[batch,2,5,8] samples 0 = core.attention(%h, %h, %h, %k) {scale = 0x1p-1, order = [0, 1, 2, 3]}
inputs [%x, %q, %h, %k]
outputs [%n, %l, %a, %m, %f, %g]
)",
                                          "t.rir")
                              .value();
  const auto roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  using enum KernelFamily;
  const std::pair<KernelFamily, double> expected[] = {
      {kConvolution, 6 * 36}, {kBatchNorm, 6 * 36}, {kBatchNormChannelsLast, 6 * 36},
      {kAttention, 40},       {kOther, 40},         {kProduct, 50},
      {kFlashAttention, 80},  {kAttention, 80}};
  for (uint32_t task = 0; task < std::size(expected); ++task) {
    const TaskFacts facts = task_facts(graph, TaskId(task), roles, 8, {}).value();
    EXPECT_EQ(facts.family, expected[task].first) << facts.what;
    EXPECT_EQ(facts.results, 8 * expected[task].second) << facts.what;
  }
}

TEST(ModelCosts, UseTheRateOfTheElementType) {
  const ir::Graph graph = model();
  Cluster cluster = preset_cluster("h100-1").value();
  cluster.kinds.push_back(cluster.kinds[0]);
  cluster.kinds[1].flops_per_second.bf16 *= 2;
  for (DeviceKind& kind : cluster.kinds) {
    kind.bytes_per_second = 1e30;  // arithmetic alone counts
    kind.launch_ns = 0;
    kind.kernels = {};
  }
  const ModelCosts costs = price_model(graph, cluster, *analytic_costs(), {8}, {}).value();
  EXPECT_DOUBLE_EQ(costs.of(0, 0, TaskId(1)).forward_ns, 2 * costs.of(1, 0, TaskId(1)).forward_ns);
  EXPECT_DOUBLE_EQ(costs.of(0, 0, TaskId(3)).forward_ns, costs.of(1, 0, TaskId(3)).forward_ns);
  EXPECT_GT(costs.of(0, 0, TaskId(3)).forward_ns, 5 * costs.of(0, 0, TaskId(1)).forward_ns);
}

}  // namespace
}  // namespace rannc::partition
