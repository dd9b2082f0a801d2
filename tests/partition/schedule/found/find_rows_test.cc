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

}  // namespace
}  // namespace rannc::partition
