// Selective recompute in finished plans: within a budget of time, or as little as memory allows.
#include "partition/model/choose_kept.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/plan/functions.h"
#include "ir/text/text.h"
#include "passes/training/selective_recompute.h"
#include "tests/partition/model/planned_models.h"

namespace rannc::test {
namespace {

using partition::RecomputeRule;

partition::PlanOptions options_with_functions(uint32_t stages, const std::string& schedule) {
  auto options = options_for("flat:4", 16);
  options.planner = "auto";
  options.micro_batches = {8};
  options.constraints.stages = stages;
  options.schedule = schedule;
  options.recompute_choices = [](const ir::Joint& joint, const ir::RecomputeCosts& costs) {
    return passes::SelectiveRecompute(joint, costs).hull();
  };
  return options;
}

ir::Plan plan_of(const Prepared& model, const partition::PlanOptions& options) {
  ir::Plan plan = std::move(planned(model, options).plan);
  for (size_t s = 0; s < plan.stages.size(); ++s)
    EXPECT_EQ(plan.functions[s]->kept.has_value(), plan.stages[s].recompute);
  return plan;
}

size_t recomputing(const ir::Plan& plan) {
  size_t count = 0;
  for (const ir::Stage& stage : plan.stages) count += stage.recompute ? 1 : 0;
  return count;
}

double recompute_share(const ir::StageTime& time) {
  return static_cast<double>(time.rebuild_ns) / static_cast<double>(time.forward_ns + time.backward_ns);
}

TEST(ChooseKept, StaysWithinTheBudget) {
  const Prepared model = small_bert();
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    auto options = options_with_functions(4, schedule);
    options.recompute = RecomputeRule::kNever;
    uint64_t before = fullest(plan_of(model, options));
    options.recompute = RecomputeRule::kChoose;
    for (const double budget : {0.02, 0.05, 0.2}) {
      SCOPED_TRACE(::testing::Message() << schedule << " within " << budget);
      options.recompute_budget = budget;
      const ir::Plan plan = plan_of(model, options);
      EXPECT_GT(recomputing(plan), 0U);
      for (const ir::StageTime& time : plan.stage_times) {
        if (!plan.stages[time.stage.index()].recompute) continue;
        EXPECT_TRUE(ir::recomputes_selectively(*plan.functions[time.stage.index()]));
        EXPECT_GT(time.rebuild_ns, 0);
        EXPECT_LE(recompute_share(time), budget);
        EXPECT_LT(time.kept_bytes, time.stashed_bytes);
      }
      EXPECT_LE(fullest(plan), before) << "a larger budget saves at least as much";
      before = fullest(plan);
      EXPECT_TRUE(ir::equal(ir::parse_plan(ir::print(plan), "printed").value(), plan));
    }
  }
}

TEST(ChooseKept, ABudgetOfNothingRecomputesNothing) {
  auto options = options_with_functions(2, "1f1b");
  options.recompute_budget = 0;
  EXPECT_EQ(recomputing(plan_of(small_bert(), options)), 0U);
}

/// Memory between that of all choices: no more is recomputed than has to be.
TEST(ChooseKept, SavesAsMuchAsMemoryRequires) {
  const Prepared model = small_bert();
  auto options = options_with_functions(1, "gpipe");
  options.constraints.replicas = {1};
  options.recompute = RecomputeRule::kNever;
  const ir::Plan never = plan_of(model, options);
  options.recompute = RecomputeRule::kAlways;
  const ir::Plan always = plan_of(model, options);
  options.recompute = RecomputeRule::kChoose;
  ASSERT_LT(fullest(always), fullest(never));
  int64_t least_ns = INT64_MAX;
  for (const double part : {0.2, 0.5, 0.8}) {
    SCOPED_TRACE(part);
    const double limit =
        static_cast<double>(fullest(always)) + part * static_cast<double>(fullest(never) - fullest(always));
    options.constraints.memory_bytes = static_cast<uint64_t>(limit);
    const ir::Plan plan = plan_of(model, options);
    EXPECT_LE(fullest(plan), *options.constraints.memory_bytes);
    EXPECT_GT(recomputing(plan), 0U);
    EXPECT_LE(plan.step_ns, always.step_ns);
    EXPECT_GE(plan.step_ns, never.step_ns);
    EXPECT_LE(plan.step_ns, least_ns) << "more memory, less time";
    least_ns = plan.step_ns;
  }
}

TEST(ChooseKept, WholeRecomputeStaysWhereItIsDemanded) {
  auto options = options_with_functions(2, "1f1b");
  options.recompute = RecomputeRule::kAlways;
  options.recomputed = ir::RecomputedMicroBatches::kAll;
  const ir::Plan plan = plan_of(small_bert(), options);
  std::set<size_t> repeated;
  for (const auto& row : plan.schedule.rows) {
    for (const ir::Action& action : row) {
      if (action.kind != ir::ActionKind::kRecompute) continue;
      repeated.insert(action.stage.index() * plan.micro_batches.size() + action.micro_batch);
    }
  }
  EXPECT_EQ(repeated.size(), 2 * plan.micro_batches.size());
  for (const auto& functions : plan.functions) EXPECT_FALSE(ir::recomputes_selectively(*functions));
  for (const ir::StageTime& time : plan.stage_times) EXPECT_LE(time.rebuild_ns, time.forward_ns);
}

}  // namespace
}  // namespace rannc::test
