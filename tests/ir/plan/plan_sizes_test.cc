// The sizes that a plan assumes count in the shape of its pipeline.
#include <gtest/gtest.h>

#include "ir/plan/held_samples.h"
#include "ir/plan/plan.h"
#include "ir/text/text.h"
#include "tests/support/small_plan.h"

namespace rannc::ir {
namespace {

constexpr const char* kGraph = R"(rannc.graph 1
graph "lengths"
batch batch
input %x: f32[batch,length] samples 0
#0 %a: f32[batch,length] samples 0 = core.relu(%x)
#1 %b: f32[batch,length] samples 0 = core.exp(%a)
#2 %y: f32[batch,length] samples 0 = core.relu(%b)
inputs [%x]
outputs [%y]
)";

TEST(PlanSizes, ActivationsOfASymbolicLengthHaveTheAssumedBytes) {
  auto graph = parse_graph(kGraph, "t.rir");
  ASSERT_TRUE(graph.ok()) << graph.diagnostic().str();
  Plan plan = testing::small_plan(*std::move(graph), {2, 1, 4, 2});
  ASSERT_EQ(plan.routes.size(), 1U);
  EXPECT_EQ(pipeline_shape(plan).routes[0].bytes_per_sample, 0) << "an unknown length";
  plan.sizes = {{"length", 16}};
  EXPECT_EQ(pipeline_shape(plan).routes[0].bytes_per_sample, 64);
  EXPECT_EQ(held_sample_bytes(plan, StageId(0)), 4 * 64);
}

}  // namespace
}  // namespace rannc::ir
