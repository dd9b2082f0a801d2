// Every schedule that is listed can be planned for a model: the plan verifies, and its stages have the layout.
#include <algorithm>

#include "partition/schedule/family.h"
#include "partition/schedule/make_schedule.h"
#include "partition/stages/problem/places.h"
#include "tests/partition/model/planned_models.h"

namespace rannc::test {
namespace {

using partition::PlanOptions;
using partition::ScheduleFamily;
using partition::StageLayout;

/// Eight micro-batches on a node of equal devices, by planner `auto` under this schedule alone.
PlanOptions options_with(const std::string& schedule, uint32_t devices) {
  PlanOptions options = options_for("flat:" + std::to_string(devices), 16);
  options.planner = "auto";
  options.micro_batches = {8};
  options.schedule = schedule;
  options.search.schedules = {schedule};
  options.search.simulated_actions = 20'000;
  return options;
}

bool shares(StageLayout layout) { return layout == StageLayout::kV || layout == StageLayout::kLoop; }

TEST(Schedules, AreAllPlannedOnTwoAndFourDevices) {
  const Prepared model = small_bert();
  for (const ScheduleFamily& family : partition::schedule_families()) {
    for (const uint32_t devices : {2, 4}) {
      SCOPED_TRACE(testing::Message() << family.name << " on " << devices << " devices");
      PlanOptions options = options_with(std::string(family.name), devices);
      options.constraints.stages = shares(family.layout) ? 2 * devices : devices;
      // One micro-batch at a time is as fast on fewer devices.
      if (family.held == partition::InFlight::kOne) options.constraints.stages_per_device = 1;
      if (family.needs == ScheduleFamily::Needs::kTable) {
        options.search.schedules.clear();
        options.schedule_table =
            ir::print_compute_rows(partition::make_schedule(ir::chain_shape(devices, 8), {.name = "gpipe"}).value());
      }
      const partition::PlannedModel found = planned(model, options);
      EXPECT_EQ(found.plan.schedule.name, family.name);
      EXPECT_EQ(found.plan.devices.size(), devices);
      EXPECT_TRUE(partition::suits(std::string(family.name), found.stages));
      EXPECT_LE(found.plan.lower_bound_ns, found.plan.step_ns);
      EXPECT_LE(found.stages.lower_bound, found.stages.objective);
    }
  }
}

TEST(Schedules, TakeTheirParameters) {
  const Prepared model = small_bert();
  PlanOptions depths = options_with("warmup", 2);
  depths.constraints.stages = 2;
  depths.schedule_parameters.warm_up = {5, 3};
  const partition::PlannedModel deep = planned(model, depths);
  EXPECT_EQ(deep.stages.warm_up, (std::vector<uint32_t>{5, 3}));
  const auto forwards = [](const std::vector<ir::Action>& row) {  // before the first backward pass
    uint32_t count = 0;
    for (const ir::Action& action : row) {
      if (action.kind == ir::ActionKind::kBackward) break;
      count += action.kind == ir::ActionKind::kForward;
    }
    return count;
  };
  EXPECT_EQ(forwards(deep.plan.schedule.rows[0]), 5U);
  EXPECT_EQ(forwards(deep.plan.schedule.rows[1]), 3U);

  PlanOptions drop = options_with("k-periodic", 4);
  drop.constraints.stages = 4;
  drop.schedule_parameters.periods = 8;
  const uint32_t all = forwards(planned(model, drop).plan.schedule.rows[0]);
  drop.schedule_parameters.periods = 1;
  EXPECT_LT(forwards(planned(model, drop).plan.schedule.rows[0]), all) << "every second batch is dropped";

  PlanOptions slow = options_with("periodic", 2);
  slow.constraints.stages = 2;
  slow.constraints.stages_per_device = 1;
  const double fast = static_cast<double>(planned(model, slow).plan.step_ns);
  slow.schedule_parameters.period_ns = fast;
  EXPECT_EQ(forwards(planned(model, slow).plan.schedule.rows[0]), 1U) << "each batch ends within its period";
  slow.schedule_parameters.period_ns = 1;
  EXPECT_NE(refused(model, slow).reason.find("a period of"), std::string::npos);
}

TEST(Schedules, SeveralStagesPerDeviceAreCounted) {
  const Prepared model = small_bert();
  PlanOptions options = options_with("interleaved", 2);
  options.constraints.stages_per_device = 3;
  const partition::PlannedModel found = planned(model, options);
  EXPECT_EQ(found.plan.stages.size(), 6U);
  for (size_t s = 0; s < 6; ++s) EXPECT_EQ(found.plan.stages[s].devices, found.plan.stages[s % 2].devices);
  options.planner = "gpipe";
  EXPECT_NE(refused(model, options).reason.find("3 stages per device were requested, the plan has 1"),
            std::string::npos);
}

}  // namespace
}  // namespace rannc::test
