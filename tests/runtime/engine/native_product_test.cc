// Products of small matrices in compiled stages, against the explicit engine.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/native_source.h"
#include "ir/text/text.h"
#include "tests/runtime/support/numbers_of_models.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::testing {
namespace {

/// x [batch, 20] -> two linear layers with a bias and one without, of `width` columns between them.
ir::Graph layers(const std::string& type, int64_t width) {
  std::string text = fmt::format(R"(rannc.graph 1
batch batch
input %x: T[batch,20] samples 0
input %target: T[batch,20] samples 0
parameter %u: T[{0},20]
parameter %a: T[{0}]
parameter %v: T[{0},{0}]
parameter %w: T[{0},20]
parameter %b: T[20]
#0 %c: T[batch,{0}] samples 0 = core.linear(%x, %u, %a) {{layout = "oi"}}
#1 %d: T[batch,{0}] samples 0 = core.tanh(%c)
#2 %e: T[batch,{0}] samples 0 = core.matmul(%d, %v)
#3 %f: T[batch,{0}] samples 0 = core.tanh(%e)
#4 %g: T[batch,20] samples 0 = core.linear(%f, %w, %b) {{layout = "io"}}
#5 %l: T[] partial = core.mse_sum(%g, %target)
inputs [%x, %target]
outputs [%g]
loss %l weight 0x1p+0
)",
                                 width);
  for (size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at + 1)) text.replace(at, 1, type);
  ir::Graph graph = ir::parse_graph(text, "layers.rir").value();
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    const at::Tensor made = at::randn(sizes_of(graph.type(value), 1), at::kDouble).mul(0.3);
    const at::Tensor typed = made.to(type == "f64" ? at::kDouble : at::kFloat);
    const auto* first = static_cast<const std::byte*>(typed.const_data_ptr());
    graph.set_data(value, ir::TensorData::in_memory({first, first + typed.nbytes()}));
  }
  return graph;
}

Numbers numbers_of(const ir::Graph& graph, PlanSpec spec, const char* engine) {
  at::manual_seed(9);
  std::map<std::string, at::Tensor> batch = batch_for(graph, 5);
  const at::ScalarType type = graph.type(graph.inputs()[0]).dtype == ir::DType::kF64 ? at::kDouble : at::kFloat;
  for (auto& [name, tensor] : batch) tensor = tensor.to(type);
  spec.micro_batches = {3, 2};
  return run_locally(build_plan(graph.clone(), spec), batch, {60.0}, {.engine = engine, .loops = true});
}

double off(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

class NativeProducts : public ::testing::TestWithParam<std::pair<const char*, double>> {};
INSTANTIATE_TEST_SUITE_P(Types, NativeProducts, ::testing::Values(std::pair("f32", 1e-5), std::pair("f64", 1e-12)),
                         [](const auto& info) { return info.param.first; });

TEST_P(NativeProducts, AreNearLibTorchs) {
  const auto [type, limit] = GetParam();
  at::manual_seed(4);
  const ir::Graph graph = layers(type, 24);
  const Numbers expected = numbers_of(graph, {}, "explicit"), found = numbers_of(graph, {}, "native");
  EXPECT_LT(off(found.outputs.at("g"), expected.outputs.at("g")), limit);
  ASSERT_EQ(found.gradients.size(), 5U);
  for (const auto& [name, tensor] : expected.gradients) EXPECT_LT(off(found.gradients.at(name), tensor), limit) << name;
  // The kernels round differently somewhere.
  EXPECT_FALSE(found.gradients.at("u").equal(expected.gradients.at("u")));
}

TEST(NativeProductCuts, ChangeNoBit) {
  at::manual_seed(4);
  const ir::Graph graph = layers("f32", 24);
  const Numbers whole = numbers_of(graph, {}, "native");
  expect_same_bits(numbers_of(graph, {.cuts = {2}}, "native"), whole);
  expect_same_bits(numbers_of(graph, {.recompute = true, .split_backward = true}, "native"), whole);
}

size_t count(const std::string& text, const std::string& of) {
  size_t found = 0;
  for (size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++found;
  return found;
}

TEST(NativeProductSource, OnlySmallProductsHaveTheKernel) {
  const auto source = [](int64_t width, bool loops) {
    const ir::Plan plan = build_plan(layers("f32", width), {.micro_batches = {3}});
    return codegen::native_source(plan, StageId(0), {.loops = loops}).value();
  };
  const std::string small = source(24, true), large = source(2000, true), plain = source(24, false);
  EXPECT_EQ(count(small, "aten::linear::call") + count(small, "aten::mm::call") + count(small, "run.add_product("), 0U);
  EXPECT_GT(count(small, "small_linear("), 0U);
  EXPECT_GT(count(small, "small_mm("), 0U);
  EXPECT_GT(count(small, "add_small_product("), 0U);
  EXPECT_EQ(count(large, "small_") + count(large, "product_calls.h"), 0U);
  EXPECT_EQ(count(plain, "small_") + count(plain, "product_calls.h"), 0U);
}

}  // namespace
}  // namespace rannc::testing
