// What a batch binds, and which batches are refused before a step begins.
#include "runtime/data/batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

ir::Plan plan_of(std::string_view graph) {
  ir::Plan plan;
  plan.graph = ir::parse_graph(graph, "t.rir").value();
  plan.mini_batch = 4;
  return plan;
}

// A table of 40 positions cut to the sequence's length.
constexpr std::string_view kCutTable = R"(rannc.graph 1
batch batch
assume equal [min(40, sequence),sequence] at "bert.onnx" node "/embeddings/Add"
input %ids: i64[batch,sequence] samples 0
inputs [%ids]
)";

Batch ids(int64_t samples, int64_t sequence) { return {{"ids", to_value(at::zeros({samples, sequence}, at::kLong))}}; }

TEST(BindBatch, BindsSymbolsFromShapes) {
  const auto bound = bind_batch(plan_of(kCutTable), ids(4, 40));
  ASSERT_TRUE(bound.ok()) << bound.diagnostic().str();
  EXPECT_EQ(*bound, (ir::Bindings{{"batch", 4}, {"sequence", 40}}));
}

TEST(BindBatch, SizesThatBreakAnAssumptionAreLocatedWhereItIsNeeded) {
  const auto bound = bind_batch(plan_of(kCutTable), ids(4, 41));
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.diagnostic().str(),
            "bert.onnx: '/embeddings/Add': error: the model assumes that min(40, sequence) equals sequence; "
            "with sequence = 41 they are 40 and 41");
}

TEST(BindBatch, SizesAreAtLeastOne) {
  const auto bound = bind_batch(plan_of(kCutTable), ids(4, 0));
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.diagnostic().message, "batch: input 'ids' is i64[4,0], but the model expects i64[batch,sequence]");
}

TEST(BindBatch, AnotherNumberOfSamplesIsRefused) {
  const auto bound = bind_batch(plan_of(kCutTable), ids(3, 40));
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.diagnostic().message, "batch: input 'ids' is i64[3,40], but the model expects i64[batch,sequence]");
}

// Height and width are multiples of 32; the length of a cache follows from another input.
constexpr std::string_view kAffine = R"(rannc.graph 1
batch batch
input %mask: i64[batch,past + s] samples 0
input %x: f32[batch,3,32*k,32*k] samples 0
input %ids: i64[batch,s] samples 0
inputs [%mask, %x, %ids]
)";

Batch affine_batch(int64_t mask, int64_t height, int64_t width) {
  return {{"mask", to_value(at::zeros({4, mask}, at::kLong))},
          {"x", to_value(at::zeros({4, 3, height, width}))},
          {"ids", to_value(at::zeros({4, 5}, at::kLong))}};
}

TEST(BindBatch, AffineAxesAreInverted) {
  const auto bound = bind_batch(plan_of(kAffine), affine_batch(12, 224, 224));
  ASSERT_TRUE(bound.ok()) << bound.diagnostic().str();
  EXPECT_EQ(*bound, (ir::Bindings{{"batch", 4}, {"k", 7}, {"past", 7}, {"s", 5}}));
}

TEST(BindBatch, ExtentsThatNoSizeGivesAreNamed) {
  const auto odd = bind_batch(plan_of(kAffine), affine_batch(12, 225, 225));
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.diagnostic().message,
            "batch: input 'x' is f32[4,3,225,225], but the model expects f32[batch,3,32*k,32*k]");
  ASSERT_EQ(odd.diagnostic().notes.size(), 1U);
  EXPECT_EQ(odd.diagnostic().notes[0].message, "axis 2 has 225, but 32*k is 225 for no size of at least 1");
  EXPECT_FALSE(bind_batch(plan_of(kAffine), affine_batch(12, 224, 192)).ok()) << "one k for both axes";
  EXPECT_FALSE(bind_batch(plan_of(kAffine), affine_batch(5, 224, 224)).ok()) << "past is at least 1";
}

TEST(BindBatch, SizesBeyondThePlanAreDescribed) {
  ir::Plan plan = plan_of(kAffine);
  plan.sizes = {{"k", 7}, {"past", 3}, {"s", 9}};
  EXPECT_EQ(sizes_beyond_plan(plan, {{"batch", 4}, {"k", 7}, {"past", 3}, {"s", 2}}), "");
  EXPECT_EQ(sizes_beyond_plan(plan, {{"batch", 4}, {"k", 8}, {"past", 3}, {"s", 10}}),
            "k = 8 (planned 7), s = 10 (planned 9)");
}

}  // namespace
}  // namespace rannc::runtime
