// What each row of the table of schedules claims is what its generator does.
#include "partition/schedule/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "partition/schedule/make_schedule.h"
#include "tests/partition/schedule/shapes.h"

namespace rannc::partition {
namespace {

using ir::ActionKind;

ir::Schedule rows_of(const ScheduleFamily& family, uint32_t ranks, uint32_t micro_batches) {
  const StageLayout layout = family.layout == StageLayout::kAny ? StageLayout::kOnePerRank : family.layout;
  const ir::PipelineShape shape = laid_out(layout, ranks, micro_batches);
  ScheduleSpec spec{.name = std::string(family.name)};
  spec.times.forward.assign(shape.stages.size(), 1);
  spec.times.backward.assign(shape.stages.size(), 2);
  spec.warmup.assign(shape.stages.size(), 2);
  if (family.needs == ScheduleFamily::Needs::kPattern)
    spec.pattern = pattern_of(make_schedule(shape, {.name = "1f1b"}).value(), shape).value();
  if (family.needs == ScheduleFamily::Needs::kTable) {
    spec.table = ir::print_compute_rows(make_schedule(shape, {.name = "gpipe"}).value());
  }
  return make_schedule(shape, spec).value();
}

/// Most micro-batches at once between an F and the action of one of `ends`.
uint64_t most_in_flight(const std::vector<ir::Action>& row, std::set<ActionKind> ends) {
  uint64_t now = 0, most = 0;
  for (const ir::Action& action : row) {
    if (action.kind == ActionKind::kForward) most = std::max(most, ++now);
    if (ends.contains(action.kind)) --now;
  }
  return most;
}

TEST(ScheduleFamily, NamesAreDistinctAndDescribed) {
  std::set<std::string_view> names;
  for (const ScheduleFamily& family : schedule_families()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.summary.empty()) << family.name;
    EXPECT_EQ(find_schedule(family.name), &family);
    EXPECT_NE(family.by_rank == nullptr, family.by_device == nullptr) << family.name;
  }
  EXPECT_EQ(find_schedule("1f2b"), nullptr);
  EXPECT_THAT(schedules_of_auto(), testing::IsSupersetOf({"1f1b", "dapple-b", "gpipe", "warmup", "zb-h1", "zb-h2"}));
}

TEST(ScheduleFamily, SplitsTheBackwardPassWhereTheRowsDo) {
  for (const ScheduleFamily& family : schedule_families()) {
    bool splits = false;
    for (const auto& row : rows_of(family, 2, 4).rows) {
      for (const ir::Action& action : row) splits = splits || action.kind == ActionKind::kInputGradient;
    }
    EXPECT_EQ(splits, family.splits_backward) << family.name;
  }
}

TEST(StageLayout, IsRecognised) {
  using Ranks = std::vector<uint32_t>;
  const auto layouts = [](const Ranks& ranks) {
    std::vector<bool> found;
    for (const auto layout : {StageLayout::kOnePerRank, StageLayout::kV, StageLayout::kLoop, StageLayout::kAny}) {
      found.push_back(has_layout(layout, ranks));
    }
    return found;
  };
  using Found = std::vector<bool>;
  EXPECT_EQ(layouts({0, 1, 2}), (Found{true, false, false, true}));
  EXPECT_EQ(layouts({0, 1, 1, 0}), (Found{false, true, false, true}));
  EXPECT_EQ(layouts({0, 1, 0, 1}), (Found{false, false, true, true}));
  EXPECT_EQ(layouts({0, 1, 0, 1, 0, 1}), (Found{false, false, true, true}));
  EXPECT_EQ(layouts({0, 0}), (Found{false, true, true, true}));
  EXPECT_EQ(layouts({0, 1, 0}), (Found{false, false, false, true}));
}

TEST(StageLayout, RanksAndStagesAreInverse) {
  for (const auto layout : {StageLayout::kV, StageLayout::kLoop}) {
    for (uint32_t ranks = 1; ranks < 5; ++ranks) {
      for (uint32_t s = 0; s < 2 * ranks; ++s) {
        EXPECT_EQ(stage_of(layout, ranks, rank_of(layout, ranks, s), s / ranks), s);
      }
    }
  }
}

TEST(ScheduleFamily, HoldsAsManyMicroBatchesAsTheRowsDo) {
  for (const ScheduleFamily& family : schedule_families()) {
    if (!family.held) continue;
    for (const uint32_t stages : {1, 2, 3, 5}) {
      for (const uint32_t m : {1, 2, 4, 12}) {
        SCOPED_TRACE(testing::Message() << family.name << ", " << stages << " stages, " << m << " micro-batches");
        const ir::Schedule schedule = rows_of(family, stages, m);
        for (uint32_t s = 0; s < stages; ++s) {
          const auto& row = schedule.rows[s];
          const uint64_t in_passes = most_in_flight(row, {ActionKind::kBackward, ActionKind::kInputGradient});
          EXPECT_EQ(in_passes, in_flight(*family.held, stages - s, m)) << "stage " << s;
          if (!family.splits_backward) continue;
          EXPECT_LE(most_in_flight(row, {ActionKind::kWeightGradient}), in_flight(*family.held, stages, m)) << s;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rannc::partition
