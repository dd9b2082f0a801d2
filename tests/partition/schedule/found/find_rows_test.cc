/// What a found schedule promises: it runs within memory, no named schedule is faster, and no bound is above it.
#include "partition/schedule/found/find_rows.h"

#include <gtest/gtest.h>

#include "ir/schedule/lower_schedule.h"
#include "ir/schedule/schedule_memory.h"
#include "ir/schedule/verify_schedule.h"
#include "partition/schedule/make_schedule.h"
#include "tests/partition/schedule/found/random_cuts.h"
#include "tests/support/tier.h"

namespace rannc::partition {
namespace {

using found_cuts::Cut;

/// The step of compute-only rows; infinity if they do not fit.
double step_of(const Cut& cut, const ir::Schedule& rows) {
  const ir::Schedule lowered = ir::lower_schedule(cut.shape, rows).value();
  const ir::Dependencies dependencies(cut.shape);
  for (uint32_t d = 0; d < cut.shape.memory_bytes.size(); ++d) {
    if (ir::row_peak(dependencies, lowered, DeviceId(d)) > cut.shape.memory_bytes[d]) return found::kNever;
  }
  return simulate(cut.shape, lowered, cut.costs, cut.options).value().makespan;
}

/// The parameters that a family requires, from the costs of each stage and the hops between them.
ScheduleSpec spec_of(const ScheduleFamily& family, const Cut& cut) {
  ScheduleSpec spec{.name = std::string(family.name)};
  for (size_t s = 0; s < cut.shape.stages.size(); ++s) {
    const ComputeTimes& t = cut.costs.compute[s][0];
    spec.times.forward.push_back(t.forward);
    spec.times.backward.push_back(t.input_gradient + t.weight_gradient +
                                  (cut.shape.stages[s].recompute ? t.recompute : 0));
  }
  return spec;
}

struct Named {
  std::string name;
  double step = found::kNever;
};

Named best_named(const Cut& cut) {
  Named best;
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.needs == ScheduleFamily::Needs::kTable || family.needs == ScheduleFamily::Needs::kWarmUp) continue;
    const auto rows = make_schedule(cut.shape, spec_of(family, cut));
    if (!rows.ok()) continue;
    const double step = step_of(cut, *rows);
    if (step < best.step) best = {std::string(family.name), step};
  }
  return best;
}

/// The pattern has the rows that were found, and rows for other numbers of micro-batches that run.
void check_pattern(Cut cut, const FoundSchedule& found) {
  EXPECT_EQ(rows_of(found.pattern, cut.shape)->rows, found.schedule->rows) << to_string(found.pattern);
  EXPECT_EQ(parse_pattern(to_string(found.pattern)).value(), found.pattern);
  const uint32_t given = cut.shape.micro_batch_count();
  cut.shape.memory_bytes.clear();
  for (const uint32_t m : {1u, 2u, given / 2 + 1, given + 1, given + 2, 2 * given, 3 * given + 1}) {
    cut.shape.micro_batches.resize(m, cut.shape.micro_batches[0]);
    const auto rows = rows_of(found.pattern, cut.shape);
    ASSERT_TRUE(rows.ok()) << rows.diagnostic().str();
    const auto lowered = ir::lower_schedule(cut.shape, *rows);
    ASSERT_TRUE(lowered.ok()) << m << ": " << lowered.diagnostic().str() << to_string(found.pattern);
    const auto proved = ir::check_schedule(cut.shape, *lowered);
    EXPECT_TRUE(proved.ok()) << m << ": " << proved.diagnostic().str() << to_string(found.pattern);
  }
}

void check(const Cut& cut, uint64_t actions) {
  SCOPED_TRACE(cut.name);
  const FoundSchedule found = find_schedule_rows({cut.shape, cut.costs, cut.options}, {.actions = actions}).value();
  const Named named = best_named(cut);
  if (!found.schedule) {
    EXPECT_EQ(named.step, found::kNever) << named.name << " fits, but nothing was found";
    return;
  }
  const ir::Schedule lowered = ir::lower_schedule(cut.shape, *found.schedule).value();
  const auto proved = ir::check_schedule(cut.shape, lowered);
  EXPECT_TRUE(proved.ok()) << proved.diagnostic().str() << "\n" << ir::print_compute_rows(*found.schedule);
  EXPECT_DOUBLE_EQ(step_of(cut, *found.schedule), found.makespan);
  EXPECT_LE(found.makespan, named.step * (1 + 1e-12)) << named.name << " is faster than " << found.origin;
  EXPECT_GE(found.makespan, found.bound.value * (1 - 1e-12)) << found.bound.argument;
  if (!found.pattern.empty()) check_pattern(cut, found);
}

TEST(FindRows, AreNeverSlowerThanANamedSchedule) {
  const uint64_t count = testing::tests_everything() ? 2000 : 300;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    check(found_cuts::random_cut(seed), 200'000);
    if (HasFailure()) return;
  }
}

TEST(FindRows, AreNeverSlowerThanANamedScheduleOnLargerCuts) {
  const uint64_t count = testing::tests_everything() ? 100 : 10;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    check(found_cuts::random_cut(seed, {.ranks = 8, .micro_batches = 24}), 1'000'000);
    if (HasFailure()) return;
  }
}

/// Cuts on which a strictly faster schedule exists. By how much the best named schedule is slower, at least, and how
/// far the found one may be from the bound. Memory lies between that of 1F1B and of ZB-H2, or is that of V-Min or
/// V-Half.
struct Gain {
  const char* name;
  double gain, gap;
  friend void PrintTo(const Gain& one, std::ostream* out) { *out << one.name; }
};
class FindRowsGain : public ::testing::TestWithParam<Gain> {};

TEST_P(FindRowsGain, IsStrict) {
  const auto cuts = found_cuts::table();
  const auto cut = std::find_if(cuts.begin(), cuts.end(), [](const Cut& one) { return one.name == GetParam().name; });
  ASSERT_NE(cut, cuts.end());
  const FoundSchedule found = find_schedule_rows({cut->shape, cut->costs, cut->options}).value();
  const Named named = best_named(*cut);
  EXPECT_GE(named.step / found.makespan - 1, GetParam().gain) << named.name << " " << found.makespan;
  EXPECT_LE(found.makespan / found.bound.value - 1, GetParam().gap) << found.bound.argument;
  if (!found.pattern.empty()) check_pattern(*cut, found);
}

INSTANTIATE_TEST_SUITE_P(
    Cuts, FindRowsGain,
    ::testing::Values(
        Gain{"V 8, m=24, 1/1/1, memory 4", 0.02, 0.06}, Gain{"V 8, m=24, 1/1.2/0.8, memory 4", 0.10, 0.12},
        Gain{"V 8, m=24, 1/1.2/0.8, memory 6", 0.03, 0.04}, Gain{"chain 8, m=24, 1/1.2/0.8, memory 10", 0.019, 1e-9},
        Gain{"chain 8, m=24, 1/1.2/0.8, memory 12", 0.035, 1e-9}, Gain{"chain 8, m=24, uneven, memory 11", 0.018, 1e-9},
        Gain{"V 8, m=24, uneven, memory 11", 0.003, 1e-9}, Gain{"chain 8, m=24, latency 0.5, memory 11", 0.10, 0.03},
        Gain{"chain 8, m=24, ports 0.6, memory 11", 0.12, 0.06}, Gain{"V 8, m=24, ports 0.4, memory 15", 0.13, 0.02},
        Gain{"V 8, m=128, 1/1.2/0.8, memory 4", 0.11, 0.09}, Gain{"V 8, m=128, 1/1.2/0.8, memory 6", 0.006, 0.007}));

/// In the memory that each device has under a published schedule, no more time is needed. V-Half's and V-Min's memory
/// differs between devices.
TEST(FindRows, MeetPublishedSchedulesInTheirMemory) {
  for (const char* name : {"1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min"}) {
    for (const ComputeTimes& times : {ComputeTimes{1, 1, 1, 0}, ComputeTimes{1, 1.2, 0.8, 0}}) {
      const bool chain = find_schedule(name)->layout == StageLayout::kOnePerRank;
      auto cut =
          chain ? found_cuts::chain(name, 6, 18, times, 0.1, 0) : found_cuts::v_shape(name, 6, 18, times, 0.1, 0);
      const auto rows = make_schedule(cut.shape, {.name = name}).value();
      const auto timeline = simulate(cut.shape, ir::lower_schedule(cut.shape, rows).value(), cut.costs).value();
      for (uint32_t d = 0; d < 6; ++d) cut.shape.memory_bytes[d] = timeline.devices[d].peak_bytes;
      SCOPED_TRACE(name);
      check(cut, 2'000'000);
    }
  }
}

/// The published 76.2 of ZB-V with F, I, W of 1, 1.2, 0.8 is the least possible in its memory.
TEST(FindRows, ProveThatZbVIsBestInItsMemory) {
  const auto cut = found_cuts::v_shape("", 8, 24, {1, 1.2, 0.8, 0}, 0, 16);
  const FoundSchedule found = find_schedule_rows({cut.shape, cut.costs, cut.options}).value();
  EXPECT_EQ(found.best_named, "zb-v");
  EXPECT_NEAR(found.makespan, 76.2, 1e-9);
  EXPECT_NEAR(found.bound.value, 76.2, 1e-9);
}

TEST(FindRows, AreEqualOnEveryCall) {
  const auto cut = found_cuts::v_shape("", 4, 12, {1, 1.2, 0.8, 0}, 0.25, 5);
  const auto once = [&] {
    return ir::digest(*find_schedule_rows({cut.shape, cut.costs, cut.options}, {.actions = 2'000'000})->schedule);
  };
  EXPECT_EQ(once(), once());
}

TEST(FindRows, RefuseInferenceAndNothing) {
  auto cut = found_cuts::chain("", 2, 2, {1, 1, 1, 0}, 0, 0);
  cut.shape.training = false;
  EXPECT_EQ(find_schedule_rows({cut.shape, cut.costs}).diagnostic().message,
            "schedules are searched for training only");
  cut.shape.training = true;
  cut.shape.micro_batches.clear();
  EXPECT_EQ(find_schedule_rows({cut.shape, cut.costs}).diagnostic().message,
            "nothing to schedule: 2 stages, 0 micro-batches");
}

TEST(FindRows, ReportThatNothingFits) {
  auto cut = found_cuts::chain("", 2, 4, {1, 1, 1, 0}, 0, 1);
  cut.shape.stages[1].fixed_bytes = 1;
  const FoundSchedule found = find_schedule_rows({cut.shape, cut.costs}, {.actions = 1'000'000}).value();
  EXPECT_FALSE(found.schedule);
  EXPECT_EQ(found.best_named, "");
}

}  // namespace
}  // namespace rannc::partition
