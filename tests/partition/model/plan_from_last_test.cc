// A model is planned again from its last plan after devices were lost.
#include "partition/model/plan_from_last.h"

#include <ctime>

#include "ir/text/text.h"
#include "partition/model/given_plan.h"
#include "partition/remaining_cluster.h"
#include "tests/partition/model/planned_models.h"
#include "tests/support/planning.h"

namespace rannc::test {
namespace {

using partition::PlannedModel;

/// As the next program reads it.
ir::PlanDraft draft_of(const PlannedModel& planned) {
  ir::Plan plan = planned.plan.clone();
  plan.functions.clear();
  return ir::parse_draft(ir::print(plan), "last.rir").value();
}

/// The options without the devices, from the last plan.
partition::PlanOptions after_loss(partition::PlanOptions options, const PlannedModel& last,
                                  const std::vector<DeviceId>& lost) {
  options.cluster = partition::without(options.cluster, lost).cluster;
  options.last = std::make_shared<const partition::GivenPlan>(
      partition::last_plan(draft_of(last), options.cluster, "last.rir").value());
  return options;
}

partition::PlanOptions automatic(const std::string& cluster, uint32_t mini_batch) {
  partition::PlanOptions options = options_for(cluster, mini_batch);
  options.planner = "auto";
  return options;
}

std::set<std::string> names_of(const ir::Plan& plan) {
  std::set<std::string> names;
  for (const ir::PlanDevice& device : plan.devices) names.insert(device.name);
  return names;
}

TEST(PlanFromLast, UsesTheDevicesThatAreLeftOverTheSameBlocks) {
  const Prepared model = small_bert();
  auto options = automatic("flat:4", 16);
  options.constraints.stages = 2;
  const PlannedModel last = planned(model, options);
  ASSERT_TRUE(names_of(last.plan).contains(options.cluster.devices[1].name));
  const PlannedModel again = planned(model, after_loss(options, last, {DeviceId(1)}));
  EXPECT_EQ(again.blocks.partition.count, last.blocks.partition.count);
  EXPECT_FALSE(names_of(again.plan).contains(options.cluster.devices[1].name));
  EXPECT_EQ(again.plan.stages.size(), 2U);
  EXPECT_GT(again.plan.lower_bound_ns, 0);
  EXPECT_GT(again.stages.lower_bound, 0);
  EXPECT_TRUE(again.remarks.empty());
}

// By the search's own prices: those of the finished plans differ by more than the two searches.
TEST(PlanFromLast, IsCloseToAWholeSearch) {
  const Prepared model = small_bert();
  for (const char* cluster : {"flat:3", "flat:8", "rannc-4x8"}) {
    SCOPED_TRACE(cluster);
    const auto options = automatic(cluster, 64);
    const PlannedModel last = planned(model, options);
    auto rest = after_loss(options, last, {DeviceId(2)});
    const PlannedModel again = planned(model, rest);
    rest.last.reset();
    const PlannedModel whole = planned(model, rest);
    EXPECT_LE(again.stages.objective, 1.02 * whole.stages.objective);
    EXPECT_LE(again.times.stages, 300'000'000);
  }
}

// Nothing fits, so the refusal is that of the whole search.
TEST(PlanFromLast, SearchesAsWithoutItWhereNothingNearFits) {
  const Prepared model = small_bert();
  auto options = automatic("flat:2", 8);
  const PlannedModel last = planned(model, options);
  auto rest = after_loss(options, last, {DeviceId(0)});
  rest.constraints.memory_bytes = 1'000'000;
  const std::string reason = refused(model, rest).reason;
  rest.last.reset();
  EXPECT_EQ(reason, refused(model, rest).reason);
}

TEST(PlanFromLast, AStageMayHaveLostAllItsDevices) {
  const Prepared model = small_bert();
  auto options = automatic("flat:3", 12);
  options.constraints.stages = 3;
  const PlannedModel last = planned(model, options);
  options.constraints.stages.reset();
  const PlannedModel again = planned(model, after_loss(options, last, {DeviceId(1)}));
  EXPECT_LE(names_of(again.plan).size(), 2U);
}

}  // namespace
}  // namespace rannc::test
