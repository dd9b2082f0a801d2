// Functions of stages: what they hold, their text, and a broken table per rule.
#include "passes/training/cut_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/plan/stage_graph.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/codegen/random_program.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::passes {
namespace {

using ir::FunctionKind;
using ir::FunctionTable;
using ir::StageFunctions;
using rannc::testing::build_plan;
using ::testing::HasSubstr;

/// A random model cut into two or three stages.
ir::Plan random_plan(uint64_t seed) {
  ir::Graph graph = ir::testing::random_program(seed, 6 + seed % 20);
  const uint32_t tasks = graph.task_count();
  std::vector<uint32_t> cuts = {tasks / 2};
  if (seed % 3 == 0) cuts = {tasks / 3, 2 * tasks / 3};
  return build_plan(std::move(graph), {.cuts = cuts, .micro_batches = {2, 2}, .recompute = seed % 2 == 0});
}

TEST(CutFunctions, OfRandomStagesAreValidAndKeepTheirText) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const ir::Plan plan = random_plan(seed);
    ASSERT_EQ(plan.functions.size(), plan.stages.size());
    const std::string text = ir::print(plan);
    const auto again = ir::parse_plan(text, "plan.rir");
    ASSERT_TRUE(again.ok()) << again.diagnostic().str();
    EXPECT_TRUE(ir::equal(*again, plan));
    EXPECT_EQ(ir::print(*again), text);
  }
}

TEST(CutFunctions, EveryRouteWithAGradientHasOnePort) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const ir::Plan plan = random_plan(seed);
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const ir::Joint& joint = plan.functions[s]->joint;
      for (const ir::Route& route : plan.routes) {
        if (!route.gradient || route.from != StageId::from(s)) continue;
        const ValueId value = joint.graph.find(plan.graph.value(route.value).name);
        EXPECT_EQ(std::count_if(joint.outputs.begin(), joint.outputs.end(),
                                [&](const auto& output) { return output.value == value; }),
                  1);
      }
    }
  }
}

TEST(CutFunctions, InferenceHasNoBackwardPass) {
  const ir::Plan plan = build_plan(rannc::testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}, .training = false});
  for (const auto& functions : plan.functions) {
    const FunctionTable table = ir::function_table(*functions);
    EXPECT_TRUE(table[FunctionKind::kBackward].tasks.empty());
    EXPECT_TRUE(table.saved.empty());
  }
}

TEST(CutFunctions, IAddsTheGradientsOfScales) {
  const ir::Plan plan = build_plan(rannc::testing::norm_model(ir::DType::kF32), {.cuts = {2}});
  const auto added = [&](size_t stage, FunctionKind kind) {
    return ir::function_table(*plan.functions[stage])[kind].added.size();
  };
  // The operand of the first normalization is an input of the model, that of the second comes from the first stage.
  EXPECT_EQ(added(0, FunctionKind::kInput), 0U);
  EXPECT_EQ(added(0, FunctionKind::kWeight), 2U);
  EXPECT_EQ(added(1, FunctionKind::kInput), 2U);
  EXPECT_EQ(added(1, FunctionKind::kWeight), 0U);
}

TEST(CutFunctions, AReshapedWeightIsMadeOnceAStepAndItsGradientAtTheEnd) {
  const ir::Plan plan = build_plan(rannc::testing::token_model(ir::DType::kF32), {});
  const FunctionTable table = ir::function_table(*plan.functions[0]);
  EXPECT_FALSE(table[FunctionKind::kStep].tasks.empty());
  EXPECT_FALSE(table[FunctionKind::kStepEnd].tasks.empty());
  EXPECT_THAT(ir::print_functions(*plan.functions[0], 0), HasSubstr("function @s0.E tasks ["));
}

// The text of functions is compared with what their stage gives.
TEST(CutFunctions, NamesMayLookLikeComments) {
  const ir::Plan plan = build_plan(ir::parse_graph(R"(rannc.graph 1
batch batch
input %"x//1": f32[batch,4] samples 0
parameter %w: f32[4,4]
#0 %"y \"//\"": f32[batch,4] samples 0 = core.matmul(%"x//1", %w)
#1 %l: f32[] partial = core.mse_sum(%"y \"//\"", %"x//1")
inputs [%"x//1"]
outputs [%"y \"//\""]
loss %l weight 0x1p+0
)",
                                                   "t.rir")
                                       .value(),
                                   {});
  const auto again = ir::parse_plan(ir::print(plan), "plan.rir");
  EXPECT_TRUE(again.ok()) << again.diagnostic().str();
}

TEST(CutFunctions, RIsOnlyWhereTheStageRecomputes) {
  const ir::Plan kept = build_plan(rannc::testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}});
  const ir::Plan again = build_plan(rannc::testing::skip_and_tie(ir::DType::kF32), {.cuts = {3}, .recompute = true});
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_TRUE(ir::function_table(*kept.functions[s])[FunctionKind::kRebuild].tasks.empty());
    const FunctionTable table = ir::function_table(*again.functions[s]);
    EXPECT_FALSE(table[FunctionKind::kRebuild].tasks.empty());
    for (const ValueId value : table.recompute) {
      EXPECT_EQ(again.functions[s]->joint.graph.kind(value), ir::ValueKind::kInput);
    }
  }
}

// --- the verifier

/// Two stages with recompute. The second has all kinds of values.
class VerifyFunctions : public ::testing::Test {
 protected:
  void SetUp() override {
    plan_ = build_plan(rannc::testing::token_model(ir::DType::kF32),
                       {.cuts = {5}, .micro_batches = {2, 2}, .recompute = true});
    table_ = ir::function_table(functions());
    ASSERT_TRUE(ir::verify(functions(), table_).empty()) << ir::verify(functions(), table_)[0].str();
    ASSERT_FALSE(table_.saved.empty());
    ASSERT_FALSE(table_.pending.empty());
    ASSERT_FALSE(table_[FunctionKind::kWeight].added.empty());
  }
  const StageFunctions& functions() const { return *plan_.functions[1]; }
  /// Expects the rule of a table that `spoil` has changed.
  template <class Spoil>
  void expect_broken(const std::string& rule, Spoil&& spoil) const {
    FunctionTable table = table_;
    spoil(table);
    const auto found = ir::verify(functions(), table);
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const Diagnostic& each) { return each.rule == rule; }))
        << "no " << rule << " among " << found.size() << (found.empty() ? "" : ": " + found[0].str());
  }

  ir::Plan plan_;
  FunctionTable table_;
};

TEST_F(VerifyFunctions, J6_AGradientOfSomethingElse) {
  const auto expect_j6 = [&](auto&& spoil) {
    ir::Joint joint = ir::parse_joint(ir::print(functions().joint), "joint.rir").value();
    ASSERT_FALSE(joint.inputs.empty());
    spoil(joint);
    const auto found = ir::verify(joint, ir::stage_graph(plan_, StageId(1)).graph);
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Diagnostic& each) { return each.rule == "J6"; }));
  };
  expect_j6([](ir::Joint& joint) { joint.inputs.push_back(joint.inputs.front()); });
  expect_j6([](ir::Joint& joint) { joint.inputs.front().value = joint.graph.outputs().front(); });
  expect_j6([](ir::Joint& joint) { joint.inputs.front().gradient = joint.gradients.front().gradient; });
}

TEST_F(VerifyFunctions, H1_ATaskIsInTwoFunctionsOrNone) {
  expect_broken(
      "H1", [](FunctionTable& t) { t[FunctionKind::kWeight].tasks.push_back(t[FunctionKind::kInput].tasks.front()); });
  expect_broken("H1", [](FunctionTable& t) { t[FunctionKind::kForward].tasks.pop_back(); });
  expect_broken("H1", [](FunctionTable& t) { t[FunctionKind::kBackward].tasks.pop_back(); });
}

TEST_F(VerifyFunctions, H2_AFunctionReadsWhatItDoesNotTake) {
  for (const FunctionKind kind : {FunctionKind::kForward, FunctionKind::kInput, FunctionKind::kWeight,
                                  FunctionKind::kBackward, FunctionKind::kRebuild, FunctionKind::kStepEnd}) {
    if (table_[kind].arguments.empty()) continue;
    expect_broken("H2", [&](FunctionTable& t) { t[kind].arguments.erase(t[kind].arguments.begin()); });
  }
}

TEST_F(VerifyFunctions, H3_ASavedValueThatNobodyMakesOrReads) {
  expect_broken("H3", [](FunctionTable& t) { t.saved.push_back(t.pending.front()); });
  expect_broken("H3", [](FunctionTable& t) { t[FunctionKind::kForward].kept.pop_back(); });
  const ValueId output = functions().joint.graph.outputs().front();
  expect_broken("H3", [&](FunctionTable& t) { t.saved.push_back(output); });
}

TEST_F(VerifyFunctions, H4_APendingValueThatNobodyMakesOrReads) {
  expect_broken("H4", [](FunctionTable& t) { t.pending.push_back(t.saved.front()); });
  expect_broken("H4", [](FunctionTable& t) { t[FunctionKind::kInput].kept.pop_back(); });
}

TEST_F(VerifyFunctions, H5_ARecomputeOfWhatItCannotReach) {
  expect_broken("H5", [](FunctionTable& t) { t.recompute.pop_back(); });
  expect_broken("H5", [](FunctionTable& t) {
    t[FunctionKind::kRebuild].tasks.push_back(t[FunctionKind::kWeight].tasks.front());
  });
  expect_broken("H5", [](FunctionTable& t) { t.rebuilt.pop_back(); });
  expect_broken("H5", [](FunctionTable& t) { t.recompute.push_back(t.pending.front()); });
}

/// One recurrent layer whose hidden states are read, with recompute.
ir::Plan recurrent_plan() {
  return build_plan(ir::parse_graph(R"(rannc.graph 1
batch batch
input %x: f32[3,batch,4] samples 1
parameter %w: f32[1,6,4]
parameter %r: f32[1,6,2]
#0 %y: f32[3,batch,2] samples 1, %h: f32[1,batch,2] samples 1 = core.gru(%x, %w, %r)
#1 %l: f32[] partial = core.sum(%y)
inputs [%x]
loss %l weight 0x1p+0
)",
                                    "recurrent.rir")
                        .value(),
                    {.micro_batches = {2, 2}, .recompute = true});
}

TEST(CutFunctions, ATapeIsSavedWithTheValuesThatItShares) {
  const ir::Plan plan = recurrent_plan();
  const std::string text = ir::print_functions(*plan.functions[0], 0);
  EXPECT_THAT(text, HasSubstr(" keeps [%x 48*batch, %y.tape 168*batch]\nfunction @s0.R tasks [#0] "));
  EXPECT_THAT(text, HasSubstr("arguments [%x 48*batch] keeps [%y.tape 168*batch]\n"));
}

TEST_F(VerifyFunctions, H5_ATapeThatFKeepsForR) {
  const ir::Plan plan = recurrent_plan();
  FunctionTable table = ir::function_table(*plan.functions[0]);
  ASSERT_TRUE(ir::verify(*plan.functions[0], table).empty());
  const ValueId tape = plan.functions[0]->joint.graph.find("y.tape");
  const ir::StageFunctions kept{ir::parse_joint(ir::print(plan.functions[0]->joint), "joint.rir").value(),
                                std::vector<ValueId>{tape}};
  const auto found = ir::verify(kept, ir::function_table(kept));
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Diagnostic& each) {
    return each.rule == "H5" && each.message == "%y.tape, which is kept for R, is a tape";
  }));
}

TEST_F(VerifyFunctions, H6_ASumWithoutATermOrWithTwo) {
  expect_broken(
      "H6", [](FunctionTable& t) { t[FunctionKind::kInput].added.push_back(t[FunctionKind::kWeight].added.front()); });
  expect_broken("H6", [](FunctionTable& t) { t[FunctionKind::kWeight].added.pop_back(); });
}

TEST_F(VerifyFunctions, P19_FunctionsOfAnotherStage) {
  const auto expect_p19 = [&] {
    const auto found = ir::verify(plan_);
    ASSERT_FALSE(found.empty());
    EXPECT_TRUE(found[0].rule == "P19" || found[0].rule[0] == 'J') << found[0].str();
  };
  std::swap(plan_.functions[0], plan_.functions[1]);
  expect_p19();
  std::swap(plan_.functions[0], plan_.functions[1]);
  plan_.functions.pop_back();
  expect_p19();
}

TEST_F(VerifyFunctions, P19_TextThatSaysSomethingElse) {
  std::string text = ir::print(plan_);
  const size_t at = text.find("function @s1.W tasks [");
  ASSERT_NE(at, std::string::npos);
  text.replace(text.find('#', at), 1, "#9");
  const auto parsed = ir::parse_plan(text, "plan.rir");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.diagnostic().rule, "P19");
  EXPECT_THAT(parsed.diagnostic().message, HasSubstr("@s1"));
}

}  // namespace
}  // namespace rannc::passes
