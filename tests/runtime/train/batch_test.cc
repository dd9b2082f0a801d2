// What a batch binds, and which batches are refused before a step begins.
#include "runtime/train/batch.h"

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

}  // namespace
}  // namespace rannc::runtime
