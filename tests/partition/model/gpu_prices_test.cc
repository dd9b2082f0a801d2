// Prices of GPUs beside the kernels of one step that tests/bench/gpu.md has for an H200.
#include <gtest/gtest.h>

#include "frontend/zoo/resnet.h"
#include "ir/graph/structure.h"
#include "ir/text/text.h"
#include "partition/cost/analytic.h"
#include "partition/model/model_costs.h"
#include "tests/partition/model/planned_models.h"

namespace rannc::test {
namespace {

using namespace partition;

/// Milliseconds of the forward and backward passes of all tasks, with floats of the type.
double priced_ms(const ir::Graph& graph, uint64_t samples, ir::DType dtype) {
  const DeviceKind gpu = preset_cluster("h200-1").value().kinds[0];
  const auto roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  const auto costs = analytic_costs();
  double total = 0;
  for (const TaskId task : graph.tasks()) {
    TaskFacts facts = task_facts(graph, task, roles, samples, {}).value();
    if (facts.dtype == ir::DType::kF32) {
      const double size = static_cast<double>(ir::byte_size(dtype)) / 4;
      facts.dtype = dtype;
      facts.traffic_bytes *= size;
      facts.parameter_bytes *= size;
    }
    const TaskCost cost = costs->price(facts, samples, gpu).value();
    total += (cost.forward_ns + cost.backward_ns()) / 1e6;
  }
  return total;
}

/// All kernels and copies of a step, less those of the optimizer and those that are not computed any more: conversions
/// for AdamW and of layouts, and parts of projections that were copied for attention.
struct Measured {
  double f32_ms, bf16_ms;
};
constexpr Measured kGpt{190.2 - 2.2 - 3.2, 40.3 - 8.5 - 1.5 - 2.7}, kResNet{47.1 - 0.2, 19.9 - 2.4 - 1.9 - 0.1};

/// A layer of GPT-2 medium over 1024 places, as the compiler fuses it. The first product makes all values need
/// gradients.
ir::Graph gpt_layer() {
  return ir::parse_graph(R"(rannc.graph 1
batch b
input %x: f32[b,1024,1024] samples 0
parameter %s: f32[1024]
parameter %qkv: f32[1024,3072]
parameter %qkv_bias: f32[3072]
parameter %out: f32[1024,1024]
parameter %up: f32[1024,4096]
parameter %up_bias: f32[4096]
parameter %down: f32[4096,1024]
#0 %x0: f32[b,1024,1024] samples 0 = core.mul(%x, %s)
#1 %n1: f32[b,1024,1024] samples 0 = core.layer_norm(%x0, %s, %s) {axis = 2}
#2 %p: f32[b,1024,3072] samples 0 = core.linear(%n1, %qkv, %qkv_bias) {layout = "io"}
#3 %q: f32[b,1024,1024] samples 0, %k: f32[b,1024,1024] samples 0, %v: f32[b,1024,1024] samples 0 = core.split(%p) {axis = 2, sizes = [1024,1024,1024]}
#4 %qr: f32[b,1024,16,64] samples 0 = core.reshape(%q) {shape = [b,1024,16,64]}
#5 %kr: f32[b,1024,16,64] samples 0 = core.reshape(%k) {shape = [b,1024,16,64]}
#6 %vr: f32[b,1024,16,64] samples 0 = core.reshape(%v) {shape = [b,1024,16,64]}
#7 %qh: f32[b,16,1024,64] samples 0 = core.permute(%qr) {dims = [0,2,1,3]}
#8 %kh: f32[b,16,1024,64] samples 0 = core.permute(%kr) {dims = [0,2,1,3]}
#9 %vh: f32[b,16,1024,64] samples 0 = core.permute(%vr) {dims = [0,2,1,3]}
#10 %a: f32[b,1024,16,64] samples 0 = core.attention(%qh, %kh, %vh) {scale = 0x1p-3, order = [0,2,1,3], causal = true}
#11 %ar: f32[b,1024,1024] samples 0 = core.reshape(%a) {shape = [b,1024,1024]}
#12 %o: f32[b,1024,1024] samples 0 = core.linear(%ar, %out, %s) {layout = "io"}
#13 %x1: f32[b,1024,1024] samples 0 = core.add(%x0, %o)
#14 %n2: f32[b,1024,1024] samples 0 = core.layer_norm(%x1, %s, %s) {axis = 2}
#15 %u: f32[b,1024,4096] samples 0 = core.linear(%n2, %up, %up_bias) {layout = "io"}
#16 %g: f32[b,1024,4096] samples 0 = core.gelu(%u) {approximate = "tanh"}
#17 %d: f32[b,1024,1024] samples 0 = core.linear(%g, %down, %s) {layout = "io"}
#18 %x2: f32[b,1024,1024] samples 0 = core.add(%x1, %d)
inputs [%x]
outputs [%x2]
)",
                         "gpt.rir")
      .value();
}

void expect_near(const ir::Graph& graph, uint64_t samples, uint32_t times, const Measured& measured) {
  EXPECT_NEAR(times * priced_ms(graph, samples, ir::DType::kF32) / measured.f32_ms, 1, 0.06);
  EXPECT_NEAR(times * priced_ms(graph, samples, ir::DType::kBF16) / measured.bf16_ms, 1, 0.1);
}

TEST(GpuPrices, GptMedium) { expect_near(gpt_layer(), 4, 24, kGpt); }

TEST(GpuPrices, ResNet50WithChannelsFirst) {
  const Prepared resnet = prepared(model(frontend::zoo::ResNetConfig(), frontend::zoo::write_resnet),
                                   "cross_entropy(output=logits,labels=y)");
  expect_near(resnet.graph, 32, 1, kResNet);
}

}  // namespace
}  // namespace rannc::test
