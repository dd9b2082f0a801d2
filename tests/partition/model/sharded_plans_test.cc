// Plans whose stages divide their optimizer state: on demand, and where memory requires it.
#include <gmock/gmock.h>

#include "ir/plan/plan.h"
#include "ir/text/text.h"
#include "tests/partition/model/planned_models.h"
#include "tests/support/planning.h"

namespace rannc::test {
namespace {

using partition::PlannedModel;
using partition::ShardOptimizer;
using ::testing::HasSubstr;
using ::testing::Not;

/// One stage on two devices, with Adam.
partition::PlanOptions replicated(ShardOptimizer sharding) {
  auto options = options_for("flat:2", 8);
  options.constraints.stages = 1;
  options.constraints.replicas = {2};
  options.optimizer.name = "adam";
  options.micro_batches = {1};  // more of them would need less memory
  options.recompute = partition::RecomputeRule::kNever;
  options.shard_optimizer = sharding;
  options.overlap_sums = false;  // gathers are never beside a backward pass
  return options;
}

TEST(ShardedPlans, DivideStateAndUpdateOnDemand) {
  const Prepared model = small_bert();
  const PlannedModel whole = planned(model, replicated(ShardOptimizer::kNever));
  const PlannedModel shares = planned(model, replicated(ShardOptimizer::kAlways));
  EXPECT_FALSE(whole.plan.stages[0].sharded);
  EXPECT_TRUE(shares.plan.stages[0].sharded);
  EXPECT_THAT(ir::print_schedule(shares.plan.schedule), AllOf(HasSubstr(" SC0 SC0.1 "), HasSubstr(" U0 AG0\n")));
  EXPECT_THAT(ir::print(shares.plan), HasSubstr("devices [d0-d1] sharded\n"));

  const auto state = static_cast<int64_t>(2 * 4 * model.elements(ir::ValueKind::kParameter));
  const int64_t saved =
      ir::pipeline_shape(whole.plan).stages[0].fixed_bytes - ir::pipeline_shape(shares.plan).stages[0].fixed_bytes;
  EXPECT_NEAR(static_cast<double>(saved), static_cast<double>(state) / 2, 2 * 4 * 4096);
  EXPECT_LT(fullest(shares.plan), fullest(whole.plan));

  const ir::FinishTime &before = whole.plan.finish_times[0], &after = shares.plan.finish_times[0];
  EXPECT_EQ(before.gather_ns, 0);
  EXPECT_EQ(after.sums.size(), shares.plan.stages[0].buckets.size());
  EXPECT_NEAR(static_cast<double>(after.all_reduce_ns + after.gather_ns), static_cast<double>(before.all_reduce_ns), 2);
  EXPECT_NEAR(static_cast<double>(after.optimizer_ns), static_cast<double>(before.optimizer_ns) / 2, 2);
  EXPECT_LE(shares.plan.step_ns, whole.plan.step_ns) << "both sum after the backward pass";
}

TEST(ShardedPlans, AutoShardsWhereNoPlanFitsOtherwise) {
  const Prepared model = small_bert();
  const uint64_t whole = fullest(planned(model, replicated(ShardOptimizer::kNever)).plan);
  const uint64_t shares = fullest(planned(model, replicated(ShardOptimizer::kAlways)).plan);

  auto options = replicated(ShardOptimizer::kWhereNeeded);
  options.constraints.memory_bytes = 2 * whole;  // blocks predict a little more than the finished plan
  const PlannedModel roomy = planned(model, options);
  EXPECT_FALSE(roomy.plan.stages[0].sharded);
  EXPECT_TRUE(roomy.remarks.empty());

  options.constraints.memory_bytes = (whole + shares) / 2;
  const PlannedModel tight = planned(model, options);
  EXPECT_TRUE(tight.plan.stages[0].sharded);
  EXPECT_LE(fullest(tight.plan), *options.constraints.memory_bytes);
  EXPECT_THAT(tight.remarks, ::testing::ElementsAre(HasSubstr("the replicas of stage 0 divide the optimizer state")));
  options.shard_optimizer = ShardOptimizer::kNever;
  refused(model, options);

  options.shard_optimizer = ShardOptimizer::kWhereNeeded;
  options.constraints.memory_bytes = shares / 2;
  refused(model, options);
}

// Between the memory of plans that shard everything and of those that shard nothing, some stages keep whole state.
TEST(ShardedPlans, AutoKeepsStateWholeWhereItFits) {
  const Prepared model = small_bert();
  auto options = replicated(ShardOptimizer::kNever);
  options.cluster = partition::preset_cluster("flat:4").value();
  options.constraints.stages = 2;
  options.constraints.replicas = {2, 2};
  const auto last = static_cast<uint32_t>(model.atoms.tasks.size() - 1);
  options.demands.together = {{last / 3, last}};  // stages of unequal memory
  const uint64_t whole = fullest(planned(model, options).plan);
  options.shard_optimizer = ShardOptimizer::kAlways;
  const uint64_t shares = fullest(planned(model, options).plan);
  options.shard_optimizer = ShardOptimizer::kWhereNeeded;
  int mixed = 0;
  for (uint64_t part = 1; part < 8; ++part) {
    options.constraints.memory_bytes = shares + (whole - shares) * part / 8;
    const auto outcome = partition::plan_model(model.graph, model.atoms, with_passes(model.graph, options));
    ASSERT_TRUE(outcome.ok()) << outcome.diagnostic().str();
    const auto* found = std::get_if<PlannedModel>(&*outcome);
    if (found == nullptr) continue;
    EXPECT_LE(fullest(found->plan), *options.constraints.memory_bytes);
    mixed += found->plan.stages[0].sharded != found->plan.stages[1].sharded;
  }
  EXPECT_GT(mixed, 0);
}

TEST(ShardedPlans, InferenceAndSingleDevicesAreWhole) {
  const Prepared model = small_bert();
  auto options = replicated(ShardOptimizer::kAlways);
  options.training = false;
  EXPECT_FALSE(planned(model, options).plan.stages[0].sharded);
  options = replicated(ShardOptimizer::kAlways);
  options.cluster = partition::preset_cluster("flat:1").value();
  options.constraints.replicas.clear();
  const PlannedModel one = planned(model, options);
  EXPECT_FALSE(one.plan.stages[0].sharded);
  EXPECT_THAT(ir::print_schedule(one.plan.schedule), Not(HasSubstr("AG")));
}

}  // namespace
}  // namespace rannc::test
