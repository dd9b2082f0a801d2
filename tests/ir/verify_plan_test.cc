// Each rule of plans, broken on purpose.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "ir/op/op.h"
#include "ir/schedule/lower_schedule.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_plan.h"

namespace rannc::ir {
namespace {

// x -> linear(w) -> relu -> linear(w, shared) -> relu, with a constant chain read in both stages and given out.
constexpr char kGraph[] = R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
parameter %b: f32[4]
#0 %c: f32[4] = core.neg(%b)
#1 %h0: f32[batch,4] samples 0 = core.linear(%x, %w, %c)
#2 %h1: f32[batch,4] samples 0 = core.relu(%h0)
#3 %h2: f32[batch,4] samples 0 = core.linear(%h1, %w, %c)
#4 %h3: f32[batch,4] samples 0 = core.add(%h2, %h1)
#5 %d: f32[4] = core.abs(%b)
inputs [%x]
outputs [%h3, %d]
)";

Plan good_plan() { return testing::small_plan(parse_graph(kGraph, "t.rir").value()); }

void expect_broken(std::string_view rule, std::string_view named, const std::function<void(Plan&)>& damage) {
  Plan plan = good_plan();
  damage(plan);
  const auto found = verify(plan);
  ASSERT_FALSE(found.empty()) << rule;
  EXPECT_EQ(found[0].rule, rule) << found[0].str();
  EXPECT_NE(found[0].message.find(named), std::string::npos) << found[0].str();
}

TEST(VerifyPlan, HoldsForAGoodPlan) {
  const Plan plan = good_plan();
  const auto found = verify(plan);
  ASSERT_TRUE(found.empty()) << found[0].str();
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].tasks, (std::vector{TaskId(0), TaskId(1), TaskId(2)}));
  EXPECT_EQ(plan.stages[1].tasks, (std::vector{TaskId(0), TaskId(3), TaskId(4), TaskId(5)}));
  ASSERT_EQ(plan.routes.size(), 1u);
  EXPECT_TRUE(plan.routes[0].gradient);
  EXPECT_EQ(plan.shared.size(), 2u);
}

TEST(VerifyPlan, IncludesTheRulesOfItsGraph) {
  expect_broken("G7", "output", [](Plan& plan) { plan.graph.add_output(ValueId(999)); });
}

TEST(VerifyPlan, P1_ConstantReadsAnActivation) {
  expect_broken("P1", "%x", [](Plan& plan) {
    plan.atoms.constant[1] = true;
    plan.atoms.atom_of[1] = AtomId();
  });
}
TEST(VerifyPlan, P1_AtomIsMissing) {
  expect_broken("P1", "#4", [](Plan& plan) { plan.atoms.tasks.pop_back(); });
}
TEST(VerifyPlan, P1_MarksOfAnotherGraph) {
  expect_broken("P1", "marks", [](Plan& plan) { plan.atoms.constant.pop_back(); });
}

TEST(VerifyPlan, P2_TaskInNoStage) {
  expect_broken("P2", "#4 is in no stage", [](Plan& plan) { std::erase(plan.stages[1].tasks, TaskId(4)); });
}
TEST(VerifyPlan, P2_TaskInTwoStages) {
  expect_broken("P2", "#4", [](Plan& plan) { plan.stages[0].tasks.push_back(TaskId(4)); });
}
TEST(VerifyPlan, P2_TasksOutOfOrder) {
  expect_broken("P2", "after", [](Plan& plan) { std::swap(plan.stages[0].tasks[1], plan.stages[0].tasks[2]); });
}
TEST(VerifyPlan, P2_TaskThatDoesNotExist) {
  expect_broken("P2", "#99", [](Plan& plan) { plan.stages[0].tasks.push_back(TaskId(99)); });
}
TEST(VerifyPlan, P2_StageWithoutATaskOfItsOwn) {
  expect_broken("P2", "@s2", [](Plan& plan) { plan.stages.push_back({{TaskId(0)}, {DeviceId(0)}, false}); });
}

TEST(VerifyPlan, P3_CloneIsMissing) {
  expect_broken("P3", "constant task #0", [](Plan& plan) { std::erase(plan.stages[1].tasks, TaskId(0)); });
}
TEST(VerifyPlan, P3_ConstantOutputIsMissing) {
  expect_broken("P3", "output %d", [](Plan& plan) { std::erase(plan.stages[1].tasks, TaskId(5)); });
}

TEST(VerifyPlan, P4_StagesInTheWrongOrder) {
  expect_broken("P4", "%h1", [](Plan& plan) { std::swap(plan.stages[0], plan.stages[1]); });
}

TEST(VerifyPlan, P5_RouteIsMissing) {
  expect_broken("P5", "%h1", [](Plan& plan) { plan.routes.clear(); });
}
TEST(VerifyPlan, P5_RouteIsNotNeeded) {
  expect_broken("P5", "not needed", [](Plan& plan) { plan.routes.push_back(plan.routes[0]); });
}
TEST(VerifyPlan, P5_RouteOfOtherBytes) {
  expect_broken("P5", "8*batch", [](Plan& plan) { plan.routes[0].bytes = Dim::symbol("batch") * Dim(8); });
}
TEST(VerifyPlan, P5_RouteWithoutItsGradient) {
  expect_broken("P5", "gradient", [](Plan& plan) { plan.routes[0].gradient = false; });
}

TEST(VerifyPlan, P6_SharedParameterIsMissing) {
  expect_broken("P6", "%w", [](Plan& plan) { plan.shared.erase(plan.shared.begin()); });
}
TEST(VerifyPlan, P6_SharedParameterOfOneStage) {
  expect_broken("P6", "3 shared", [](Plan& plan) { plan.shared.push_back(plan.shared[0]); });
}

TEST(VerifyPlan, P7_StageWithoutADevice) {
  expect_broken("P7", "@s1", [](Plan& plan) { plan.stages[1].devices.clear(); });
}
TEST(VerifyPlan, P7_DeviceThatDoesNotExist) {
  expect_broken("P7", "d9", [](Plan& plan) { plan.stages[1].devices[0] = DeviceId(9); });
}
TEST(VerifyPlan, P7_DeviceTwice) {
  expect_broken("P7", "twice", [](Plan& plan) { plan.stages[1].devices.push_back(plan.stages[1].devices[0]); });
}
TEST(VerifyPlan, P7_NameTwice) {
  expect_broken("P7", "node0/cpu0", [](Plan& plan) { plan.devices[1].name = plan.devices[0].name; });
}

TEST(VerifyPlan, P7_DevicesOfTwoTypes) {
  expect_broken("P7", "cuda", [](Plan& plan) { plan.devices[1].type = DeviceType::kCuda; });
}

TEST(VerifyPlan, P8_SumOfMicroBatches) {
  expect_broken("P8", "6 samples, the mini-batch 7", [](Plan& plan) { --plan.micro_batches[0]; });
}
TEST(VerifyPlan, P8_UnequalMicroBatches) {
  expect_broken("P8", "4 and of 1", [](Plan& plan) { plan.micro_batches = {4, 2, 1}; });
}
TEST(VerifyPlan, P8_EmptyMicroBatch) {
  expect_broken("P8", "empty", [](Plan& plan) { plan.micro_batches = {1, 0}, plan.mini_batch = 1; });
}

TEST(VerifyPlan, P9_BlockIsCut) {
  expect_broken("P9", "b1 is cut", [](Plan& plan) { plan.block_of[2] = plan.block_of[1]; });
}
TEST(VerifyPlan, P9_BlockIsEmpty) {
  expect_broken("P9", "b0 is empty", [](Plan& plan) { plan.block_of[0] = BlockId(1); });
}
TEST(VerifyPlan, P9_TaskInNoBlock) {
  expect_broken("P9", "#1", [](Plan& plan) { plan.block_of[0] = BlockId(); });
}

TEST(VerifyPlan, P10_PredictionIsMissing) {
  expect_broken("P10", "1 predictions for 2", [](Plan& plan) { plan.predictions.pop_back(); });
}
TEST(VerifyPlan, P10_PredictionBeyondMemory) {
  expect_broken("P10", "node0/cpu1",
                [](Plan& plan) { plan.predictions[1].peak_bytes = plan.devices[1].memory_bytes + 1; });
}

TEST(VerifyPlan, P11_BelowTheBound) {
  expect_broken("P11", "lower bound", [](Plan& plan) { plan.lower_bound_ns = plan.step_ns + 1; });
}
// Measured stages may be faster or slower than those of the search, to which alone the bound applies.
TEST(VerifyPlan, P11_BelowTheBoundAtThePricesOfTheSearch) {
  expect_broken("P11", "lower bound", [](Plan& plan) { plan.searched_ns = plan.lower_bound_ns - 1; });
  Plan plan = testing::small_plan(testing::random_graph({.seed = 3}));
  plan.searched_ns = plan.lower_bound_ns;
  plan.step_ns = plan.lower_bound_ns - 1;
  EXPECT_TRUE(verify(plan).empty());
  const std::string text = print(plan);
  EXPECT_NE(text.find("\nstep_ns 5999 searched_ns 6000 lower_bound_ns 6000\n"), std::string::npos);
  EXPECT_EQ(parse_plan(text, "t.rir").value().searched_ns, 6000);
  EXPECT_EQ(print(parse_plan(text, "t.rir").value()), text);
}
TEST(VerifyPlan, P11_NegativeTime) {
  expect_broken("P11", "@s0", [](Plan& plan) { plan.stage_times[0].forward_ns = -1; });
}
TEST(VerifyPlan, P11_TimeOfNoStage) {
  expect_broken("P11", "@s7", [](Plan& plan) { plan.stage_times[0].stage = StageId(7); });
}

TEST(VerifyPlan, P11_FinishOfSomeStages) {
  expect_broken("P11", "1 times", [](Plan& plan) { plan.finish_times = {{StageId(0), 1, 1}}; });
}
TEST(VerifyPlan, P11_FinishOutOfOrder) {
  expect_broken("P11", "finishing time 0 is of stage @s1", [](Plan& plan) {
    plan.finish_times = {{StageId(1), 1, 1}, {StageId(0), 1, 1}};
  });
}
TEST(VerifyPlan, P11_NegativeFinish) {
  expect_broken("P11", "-1", [](Plan& plan) { plan.finish_times = {{StageId(0), 1, 1}, {StageId(1), 1, -1}}; });
}
TEST(VerifyPlan, P11_NegativeGradients) {
  expect_broken("P11", "-2", [](Plan& plan) { plan.finish_times = {{StageId(0), 1, 1, 0}, {StageId(1), 1, 1, -2}}; });
}
TEST(VerifyPlan, P11_BeginOfSomeStages) {
  expect_broken("P11", "1 times of beginning", [](Plan& plan) { plan.begin_ns = {1}; });
}
TEST(VerifyPlan, P11_NegativeBegin) {
  expect_broken("P11", "stage @s1 -3 ns", [](Plan& plan) { plan.begin_ns = {0, -3}; });
}
TEST(VerifyPlan, P11_NegativeSum) {
  expect_broken("P11", "shared parameter", [](Plan& plan) { plan.shared[0].sum_ns = -1; });
}

TEST(VerifyPlan, P12_Planner) {
  expect_broken("P12", "planner", [](Plan& plan) { plan.planner.clear(); });
}
TEST(VerifyPlan, P12_Digest) {
  expect_broken("P12", "XYZ", [](Plan& plan) { plan.cluster_digest = "XYZ"; });
}

TEST(VerifyPlan, P13_RowIsMissing) {
  expect_broken("P13", "1 rows", [](Plan& plan) { plan.schedule.rows.pop_back(); });
}
TEST(VerifyPlan, P13_NotLowered) {
  expect_broken("P13", "gpipe is not lowered", [](Plan& plan) { plan.schedule.lowered = false; });
}
TEST(VerifyPlan, P14_UnknownOptimizer) {
  expect_broken("P14", "optimizer 'tiger' is not one of sgd", [](Plan& plan) { plan.optimizer.name = "tiger"; });
}
TEST(VerifyPlan, P14_SettingsOfAnother) {
  expect_broken("P14", "sgd with amsgrad; adam, adamw and muon", [](Plan& plan) { plan.optimizer.amsgrad = true; });
  expect_broken("P14", "average of weight 1;", [](Plan& plan) { plan.optimizer.grouping.average = 1; });
}
TEST(VerifyPlan, P14_GroupWithoutAParameter) {
  expect_broken("P14", "group 'lost.*' matches no parameter",
                [](Plan& plan) { plan.optimizer.grouping.groups = {parse_group("lost.*: rate=1").value()}; });
}
TEST(VerifyPlan, P14_MomentumOfAnother) {
  expect_broken("P14", "adam with a momentum of 0.5; sgd and muon", [](Plan& plan) {
    plan.optimizer = {"adam", 0.5, false, {}};
  });
  expect_broken("P14", "momentum of 1;", [](Plan& plan) { plan.optimizer.momentum = 1; });
  expect_broken("P14", "optimizer '' is not one of", [](Plan& plan) { plan.optimizer.name.clear(); });
}
TEST(VerifyPlan, P20_ShardedWithoutReplicas) {
  expect_broken("P20", "@s1 shards optimizer state over 1 device", [](Plan& plan) { plan.stages[1].sharded = true; });
}
TEST(VerifyPlan, P20_ShardedInference) {
  Plan plan = testing::small_plan(parse_graph(kGraph, "t.rir").value(), {2, 2});
  plan.stages[0].sharded = true;
  plan.training = false;
  plan.optimizer = {};
  const auto found = verify(plan);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "P20") << found[0].str();
}
TEST(VerifyPlan, P14_OptimizerOfInference) {
  expect_broken("P14", "inference", [](Plan& plan) {
    plan.training = false;
    plan.optimizer = {"sgd", 0.9, false, {}};
    derive_routes(plan);  // no gradients
  });
}
TEST(VerifyPlan, P13_NameOfTwoWords) {
  expect_broken("P13", "g pipe", [](Plan& plan) { plan.schedule.name = "g pipe"; });
}

// Two layers that share %w, of a stage and two replicas each, and %u and %v of their own.
Plan plan_with_buckets() {
  Graph graph = parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
parameter %u: f32[4]
parameter %v: f32[4]
#0 %h0: f32[batch,4] samples 0 = core.linear(%x, %w, %u)
#1 %h1: f32[batch,4] samples 0 = core.mul(%h0, %v)
#2 %h2: f32[batch,4] samples 0 = core.linear(%h1, %w)
#3 %h3: f32[batch,4] samples 0 = core.relu(%h2)
inputs [%x]
outputs [%h3]
)",
                            "t.rir")
                    .value();
  return testing::small_plan(std::move(graph), {.replicas = 2, .bucket_bytes = 0});
}

void expect_p22(std::string_view named, const std::function<void(Plan&)>& damage) {
  Plan plan = plan_with_buckets();
  damage(plan);
  const auto found = verify(plan);
  ASSERT_FALSE(found.empty()) << named;
  EXPECT_EQ(found[0].rule, "P22") << found[0].str();
  EXPECT_NE(found[0].message.find(named), std::string::npos) << found[0].str();
}

TEST(VerifyPlan, HoldsForBuckets) {
  Plan plan = plan_with_buckets();
  ASSERT_TRUE(verify(plan).empty()) << verify(plan)[0].str();
  const ValueId u = plan.graph.find("u"), v = plan.graph.find("v");
  EXPECT_EQ(plan.stages[0].buckets, (std::vector<std::vector<ValueId>>{{v}, {u}})) << "gradients of #1 come first";
  EXPECT_TRUE(plan.stages[1].buckets.empty()) << "%w is shared";
  plan.finish_times[0].sums = {{1, 2}, {3, 4}};
  EXPECT_TRUE(verify(plan).empty()) << verify(plan)[0].str();
}
TEST(VerifyPlan, P22_ParameterInNoBucket) {
  expect_p22("%v is in 0 buckets of stage @s0; expected 1", [](Plan& plan) {
    plan.stages[0].buckets[0] = plan.stages[0].buckets[1];
    plan.stages[0].buckets.pop_back();
  });
}
TEST(VerifyPlan, P22_ParameterInTwoBuckets) {
  expect_p22("%v is in 2 buckets of stage @s0; expected 1",
             [](Plan& plan) { plan.stages[0].buckets[1].push_back(plan.graph.find("v")); });
  expect_p22("%u is in 2 buckets", [](Plan& plan) { plan.stages[0].buckets[1].push_back(plan.graph.find("u")); });
}
TEST(VerifyPlan, P22_BucketOfASharedParameter) {
  expect_p22("%w is in a bucket of stage @s0, whose replicas do not sum its gradient",
             [](Plan& plan) { plan.stages[0].buckets[1].push_back(plan.graph.find("w")); });
}
TEST(VerifyPlan, P22_BucketOfAnotherStage) {
  expect_p22("%u is in a bucket of stage @s1",
             [](Plan& plan) { plan.stages[1].buckets.push_back(plan.stages[0].buckets[1]); });
}
TEST(VerifyPlan, P22_EmptyBucket) {
  expect_p22("stage @s0 has an empty bucket", [](Plan& plan) { plan.stages[0].buckets.emplace_back(); });
}
TEST(VerifyPlan, P22_BucketWithoutReplicas) {
  expect_broken("P22", "%x is in a bucket of stage @s0",
                [](Plan& plan) { plan.stages[0].buckets = {{plan.graph.find("x")}}; });
  expect_p22("%u is in a bucket of stage @s0", [](Plan& plan) {
    plan.training = false;
    plan.optimizer = {};
    derive_routes(plan);
  });
}
TEST(VerifyPlan, P22_NumberOfTimedSums) {
  expect_p22("1 sums of stage @s0 are timed, of 2", [](Plan& plan) { plan.finish_times[0].sums = {{1, 1}}; });
  expect_p22("1 sums of stage @s1 are timed, of 0", [](Plan& plan) { plan.finish_times[1].sums = {{1, 1}}; });
}
TEST(VerifyPlan, P11_NegativeTimeOfASum) {
  for (const SumTime wrong : {SumTime{-1, 0}, SumTime{1, -5}}) {
    Plan plan = plan_with_buckets();
    plan.finish_times[0].sums = {{1, 1}, wrong};
    const auto found = verify(plan);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].rule, "P11") << found[0].str();
    EXPECT_NE(found[0].message.find("a sum of stage @s0"), std::string::npos) << found[0].str();
  }
}

// Two layers and, once per mini-batch, a penalty on the weight of each and on a parameter that nothing else reads.
Plan plan_with_penalties() {
  Graph graph = parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
parameter %v: f32[4,4]
parameter %u: f32[4]
#0 %h0: f32[batch,4] samples 0 = core.linear(%x, %w)
#1 %h1: f32[batch,4] samples 0 = core.relu(%h0)
#2 %t: f32[4,4] = core.neg(%v)
#3 %h2: f32[batch,4] samples 0 = core.linear(%h1, %t)
#4 %l: f32[] partial = core.sum(%h2)
#5 %ws: f32[] = core.sum(%w)
#6 %we: f32[batch] samples 0 = core.expand(%ws) {shape = [batch]}
#7 %wl: f32[] partial = core.sum(%we)
#8 %vs: f32[] = core.sum(%v)
#9 %ve: f32[batch] samples 0 = core.expand(%vs) {shape = [batch]}
#10 %vl: f32[] partial = core.sum(%ve)
#11 %us: f32[] = core.sum(%u)
#12 %ue: f32[batch] samples 0 = core.expand(%us) {shape = [batch]}
#13 %ul: f32[] partial = core.sum(%ue)
inputs [%x]
loss %l weight 0x1p+0
loss %wl weight 0x1p+0
loss %vl weight 0x1p+0
loss %ul weight 0x1p+0
)",
                            "t.rir")
                    .value();
  return testing::small_plan(std::move(graph), {.stages = 2});
}
TEST(VerifyPlan, PenaltiesAreInTheStagesOfTheirParameters) {
  const Plan plan = plan_with_penalties();
  const auto found = verify(plan);
  ASSERT_TRUE(found.empty()) << found[0].str();
  EXPECT_TRUE(plan.shared.empty());
  const auto holds = [&](size_t stage, uint32_t task) {
    return std::binary_search(plan.stages[stage].tasks.begin(), plan.stages[stage].tasks.end(), TaskId(task));
  };
  EXPECT_TRUE(holds(0, 7) && !holds(1, 7)) << "%w is of @s0";
  EXPECT_TRUE(holds(1, 10) && !holds(0, 10)) << "%v is of @s1, through a constant task";
  EXPECT_TRUE(holds(1, 13) && !holds(0, 13)) << "%u has no other reader";
}
TEST(VerifyPlan, P21_NumeratorIsMissing) {
  Plan plan = plan_with_penalties();
  std::erase(plan.stages[0].tasks, TaskId(7));
  const auto found = verify(plan);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "P21") << found[0].str();
  EXPECT_NE(found[0].message.find("0 stages return loss numerator %wl"), std::string::npos) << found[0].str();
}

// The same model with a batch of 7 in its inputs.
Plan fixed_plan(const testing::PlanShape& shape) {
  std::string text = kGraph;
  for (const auto& [from, to] :
       {std::pair("batch batch\n", ""), std::pair("batch,", "7,"), std::pair(" samples 0", "")}) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from)) {
      text.replace(at, std::string_view(from).size(), to);
    }
  }
  return testing::small_plan(parse_graph(text, "t.rir").value(), shape);
}

void expect_p15(std::string_view named, const testing::PlanShape& shape) {
  const auto found = verify(fixed_plan(shape));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "P15") << found[0].str();
  EXPECT_NE(found[0].message.find(named), std::string::npos) << found[0].str();
}

TEST(VerifyPlan, P15_MicroBatchesOfAFixedBatch) {
  expect_p15("a mini-batch of 7 samples cannot be split into 3 micro-batches", {.micro_batches = 3});
}
TEST(VerifyPlan, P15_AnotherMiniBatchThanTheFixedOne) {
  expect_p15("it has 7 samples, the mini-batch 32", {.mini_batch = 32, .micro_batches = 1});
}
TEST(VerifyPlan, P15_ReplicasOfAFixedBatch) {
  expect_p15("the 2 replicas of stage @s0", {.replicas = 2, .micro_batches = 1});
}
TEST(VerifyPlan, StagesMayShareAFixedBatch) {
  for (const uint32_t stages : {1U, 2U, 3U}) {
    const auto found = verify(fixed_plan({.stages = stages, .micro_batches = 1}));
    EXPECT_TRUE(found.empty()) << found[0].str();
  }
}

// %c, which is n times the number of samples, crosses the cut.
Plan plan_with_counted() {
  Graph graph = parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
input %n: f32[4]
parameter %v: f32[4]
#0 %k: f32[] counted = core.full() {dtype = !f32, shape = [], value = batch}
#1 %c: f32[4] counted = core.mul(%n, %k)
#2 %y: f32[batch,4] samples 0 = core.mul(%x, %v)
#3 %z: f32[batch,4] samples 0 = core.div(%y, %c)
#4 %l: f32[] partial = core.sum(%z)
inputs [%x, %n]
loss %l weight 0x1p+0
)",
                            "t.rir")
                    .value();
  return testing::small_plan(std::move(graph), {.stages = 2});
}

TEST(VerifyPlan, P16_ANumberOfSamplesReachesOtherReplicas) {
  Plan plan = plan_with_counted();
  EXPECT_TRUE(verify(plan).empty()) << verify(plan)[0].str();
  plan.stages[1].devices.push_back(DeviceId::from(plan.devices.size()));
  plan.devices.push_back({"node0/other", "cpu", uint64_t{1} << 30});
  const auto found = verify(plan);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Diagnostic& each) { return each.rule == "P16"; }));
}

TEST(VerifyPlan, P17_ASumIsMadeWholeInAStage) {
  Graph graph = parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
#0 %p: f32[4] partial = core.sum(%x) {axes = [0], keepdim = false}
#1 %t: f32[4] = core.total(%p)
#2 %y: f32[4] = core.relu(%t)
inputs [%x]
outputs [%y]
)",
                            "t.rir")
                    .value();
  const auto found = verify(testing::small_plan(std::move(graph), {.stages = 1}));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "P17") << found[0].str();
}

constexpr char kTogether[] = "synchronised = true, ";

// Two normalisations by the batch, cut between; each is over all replicas where its flag says so.
Plan plan_with_norms(const std::string& first, const std::string& second, const testing::PlanShape& shape) {
  Graph graph = parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %s: f32[4]
buffer %rm: f32[4]
buffer %rv: f32[4]
buffer %rm2: f32[4]
buffer %rv2: f32[4]
#0 %h: f32[batch,4] samples 0 = core.relu(%x)
#1 %y: f32[batch,4] samples 0, %m: f32[4], %v: f32[4] = core.batch_norm(%h, %s, %s, %rm, %rv) {)" +
                                first + R"(training = true} at "n.onnx" node "norm"
#2 %z: f32[batch,4] samples 0, %m2: f32[4], %v2: f32[4] = core.batch_norm(%y, %s, %s, %rm2, %rv2) {)" +
                                second + R"(training = true}
#3 %l: f32[] partial = core.sum(%z)
inputs [%x]
loss %l weight 0x1p+0
statistics %rm, %rv = %m, %v
statistics %rm2, %rv2 = %m2, %v2
)",
                            "t.rir")
                    .value();
  return testing::small_plan(std::move(graph), shape);
}

TEST(VerifyPlan, P18_AReplicaWithoutASampleToNormaliseWith) {
  const testing::PlanShape uneven{.stages = 2, .replicas = 3, .mini_batch = 5, .micro_batches = 2};
  const auto found = verify(plan_with_norms(kTogether, "", uneven));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "P18") << found[0].str();
  for (const char* part :
       {"n.onnx", "norm", "task #1", "all 3 replicas of stage @s0", "the smallest micro-batch has 2"}) {
    EXPECT_NE(found[0].str().find(part), std::string::npos) << found[0].str();
  }
  const auto expect_good = [](const Plan& plan) {
    const auto faults = verify(plan);
    EXPECT_TRUE(faults.empty()) << faults[0].str();
  };
  expect_good(plan_with_norms("", "", uneven));
  testing::PlanShape even = uneven;
  even.mini_batch = 6;
  expect_good(plan_with_norms(kTogether, kTogether, even));
  Plan evaluated = plan_with_norms(kTogether, "", uneven);
  evaluated.training = false;
  for (const Diagnostic& fault : verify(evaluated)) EXPECT_NE(fault.rule, "P18") << fault.str();
}

// The second micro-batch of the first stage and the first one of the second stage are done in different order. Each row
// is good, and replicas of a stage do the same (S3), but where both stages normalise over their replicas each device
// waits for the other in the middle of a pass.
TEST(VerifyPlan, S6_ReplicasThatNormaliseTogetherWaitForEachOther) {
  constexpr char kCrossed[] =
      "0: F0.0 F1.0 F0.1 F1.1 B1.0 B0.0 B1.1 B0.1\n1: F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1\n";
  const auto faults = [&](const char* first, const char* second) {
    Plan plan = plan_with_norms(first, second, {.stages = 2, .replicas = 2, .mini_batch = 4, .micro_batches = 2});
    plan.devices.resize(2);
    plan.predictions.resize(2);
    for (Stage& stage : plan.stages) stage.devices = {DeviceId(0), DeviceId(1)};
    const PipelineShape shape = pipeline_shape(plan);
    plan.schedule = lower_schedule(shape, parse_schedule(kCrossed, shape).value()).value();
    plan.schedule.name = "table";
    return verify(plan);
  };
  for (const auto& [first, second] : {std::pair("", ""), std::pair(kTogether, ""), std::pair("", kTogether)}) {
    const auto found = faults(first, second);
    EXPECT_TRUE(found.empty()) << found[0].str();
  }
  const auto found = faults(kTogether, kTogether);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].rule, "S6") << found[0].str();
  for (const char* part : {"blocked in F1.0", "blocked in F0.1"}) {
    EXPECT_NE(found[0].str().find(part), std::string::npos) << found[0].str();
  }
}

TEST(VerifyPlan, SumsOverSamplesMayCrossACut) {
  Graph graph = parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4,4]
parameter %v: f32[4]
#0 %y: f32[batch,4] samples 0 = core.matmul(%x, %w)
#1 %p: f32[4] partial = core.sum(%y) {axes = [0], keepdim = false}
#2 %q: f32[4] partial = core.mul(%p, %v)
#3 %loss: f32[] partial = core.sum(%q)
inputs [%x]
loss %loss weight 0x1p+0
)",
                            "t.rir")
                    .value();
  const auto found = verify(testing::small_plan(std::move(graph), {.stages = 2, .replicas = 2}));
  EXPECT_TRUE(found.empty()) << found[0].str();
}

// %r is read by a stage that detaches it, by one that does nothing of a loss with it, and by one that trains it.
TEST(VerifyPlan, GradientsReturnFromReadersThatPassThemOn) {
  Graph graph = parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[batch,4] samples 0
parameter %w: f32[4]
parameter %v: f32[4]
#0 %a: f32[batch,4] samples 0 = core.mul(%x, %w)
#1 %r: f32[batch,4] samples 0 = core.sqrt(%a)
#2 %d: f32[batch,4] samples 0 = core.stop_gradient(%r)
#3 %m: f32[batch,4] samples 0 = core.mul(%d, %v)
#4 %n: f32[batch,4] samples 0 = core.neg(%r)
#5 %o: f32[batch,4] samples 0 = core.abs(%n)
#6 %q: f32[batch,4] samples 0 = core.add(%r, %m)
#7 %loss: f32[] partial = core.sum(%q)
inputs [%x]
outputs [%o]
loss %loss weight 0x1p+0
)",
                            "t.rir")
                    .value();
  const Plan plan = testing::small_plan(std::move(graph), {.stages = 4});
  const auto found = verify(plan);
  ASSERT_TRUE(found.empty()) << found[0].str();
  std::map<uint32_t, bool> returns;  // of %r, by reader
  for (const Route& route : plan.routes) {
    if (plan.graph.value(route.value).name == "r") returns[route.to.index()] = route.gradient;
  }
  EXPECT_EQ(returns, (std::map<uint32_t, bool>{{1, false}, {2, false}, {3, true}}));
}

TEST(VerifyPlan, IncludesTheRulesOfItsSchedule) {
  expect_broken("S1", "", [](Plan& plan) {
    std::erase_if(plan.schedule.rows[0],
                  [](const Action& action) { return action.kind == ActionKind::kBackward && action.micro_batch == 0; });
  });
}

}  // namespace
}  // namespace rannc::ir
