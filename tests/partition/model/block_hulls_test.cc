// Searches with the hulls of blocks: when they are computed, and what they gain under a memory limit.
#include "partition/model/block_hulls.h"

#include <gtest/gtest.h>

#include "passes/training/selective_recompute.h"
#include "tests/partition/model/planned_models.h"
#include "tests/support/planning.h"

namespace rannc::test {
namespace {

using partition::RecomputeRule;

/// `cuts` counts the hulls that are computed.
partition::PlanOptions selective_options(int& cuts) {
  auto options = options_for("flat:4", 32);
  options.planner = "auto";
  options.schedule = "1f1b";
  options.recompute_choices = [&cuts](const ir::Joint& joint, const ir::RecomputeCosts& costs) {
    ++cuts;
    return passes::SelectiveRecompute(joint, costs).hull();
  };
  return options;
}

TEST(BlockHulls, AreNotComputedWhereMemoryIsAmple) {
  int cuts = 0;
  const auto plan = planned(small_bert(), selective_options(cuts));
  EXPECT_EQ(cuts, 0);
  EXPECT_TRUE(plan.problem.rebuild_hulls.empty());
}

TEST(BlockHulls, AreNotComputedWhereRecomputeIsDemanded) {
  const Prepared model = small_bert();
  int cuts = 0;
  auto options = selective_options(cuts);
  options.recompute = RecomputeRule::kAlways;
  const uint64_t least = fullest(planned(model, options).plan);
  options.constraints.memory_bytes = least + least / 10;
  EXPECT_TRUE(planned(model, options).problem.rebuild_hulls.empty());
  EXPECT_EQ(cuts, 0);
}

/// Limits between what whole recompute and no recompute need. Each plan fits, and none is slower than the plan whose
/// stages repeat all or nothing.
TEST(BlockHulls, GainUnderAMemoryLimit) {
  const Prepared model = small_bert();
  int cuts = 0, gained = 0, searched = 0;
  auto options = selective_options(cuts);
  options.micro_batches = {8};
  options.constraints.max_stages = 4;
  options.recompute = RecomputeRule::kAlways;
  const auto always = static_cast<double>(fullest(planned(model, options).plan));
  options.recompute = RecomputeRule::kNever;
  const auto never = static_cast<double>(fullest(planned(model, options).plan));
  options.recompute = RecomputeRule::kChoose;
  for (const double part : {0.7, 0.8, 0.9, 1.0}) {
    SCOPED_TRACE(part);
    options.constraints.memory_bytes = static_cast<uint64_t>(part * std::max(always, never));
    auto whole = options;
    whole.recompute_choices = nullptr;
    const auto outcome = partition::plan_model(model.graph, model.atoms, with_passes(model.graph, whole)).value();
    const auto* before = std::get_if<partition::PlannedModel>(&outcome);
    if (before == nullptr) continue;
    const auto plan = planned(model, options);
    EXPECT_LE(fullest(plan.plan), *options.constraints.memory_bytes);
    EXPECT_LE(plan.plan.step_ns, before->plan.step_ns);
    EXPECT_LE(plan.plan.lower_bound_ns, plan.plan.step_ns);
    EXPECT_LE(plan.stages.lower_bound, plan.stages.objective);
    searched += plan.problem.rebuild_hulls.empty() ? 0 : 1;
    gained += plan.plan.step_ns < before->plan.step_ns ? 1 : 0;
  }
  EXPECT_GT(searched, 0) << "the plan with hulls was chosen for some limit";
  EXPECT_GT(gained, 0);
  EXPECT_GT(cuts, 0);
}

}  // namespace
}  // namespace rannc::test
