/// The oracle of row orders, and what it says of bounds and found schedules.
#include "partition/reference/exact_rows.h"

#include <gtest/gtest.h>

#include "partition/schedule/found/find_rows.h"
#include "tests/partition/schedule/found/random_cuts.h"
#include "tests/support/tier.h"

namespace rannc::partition {
namespace {

using found::BackwardParts;

double exact(const found_cuts::Cut& cut, BackwardParts parts = BackwardParts::kSplit) {
  const auto problem = found::make_row_problem(cut.shape, cut.costs, parts, {});
  return exact_row_makespan(problem).value();
}

/// Optima known by hand: idle time of pipelines of equal stages.
TEST(ExactRows, KnowsPublishedOptima) {
  const ComputeTimes equal{1, 1, 1, 0};
  EXPECT_DOUBLE_EQ(exact(found_cuts::chain("", 3, 5, equal, 0, 0), BackwardParts::kWhole), 3 * 5 + 3 * 2);
  EXPECT_DOUBLE_EQ(exact(found_cuts::chain("", 3, 5, equal, 0, 0)), 3 * 5 + 2);  // zero bubble
  EXPECT_DOUBLE_EQ(exact(found_cuts::chain("", 2, 3, equal, 0, 1)), 3 * 5);      // one micro-batch at a time
}

TEST(ExactRows, ThatDoNotFitAreInfinite) {
  auto cut = found_cuts::chain("", 2, 2, {1, 1, 1, 0}, 0, 1);
  cut.shape.stages[1].fixed_bytes = 1;
  EXPECT_EQ(exact(cut), found::kNever);
}

struct Tally {
  int solved = 0, met = 0, optimal = 0;
  double worst = 0;
};

/// Without contention the model is the simulator, so the oracle's optimum bounds what is found.
void compare(uint64_t seed, const found_cuts::Limits& limits, Tally& tally) {
  auto cut = found_cuts::random_cut(seed, limits);
  cut.options.contention = false;
  for (ir::RouteShape& route : cut.shape.routes) route.bytes_per_sample = 0;  // messages hold no memory
  const BackwardParts parts = seed % 4 == 0 ? BackwardParts::kWhole : BackwardParts::kSplit;
  const auto problem = found::make_row_problem(cut.shape, cut.costs, parts, {});
  const auto found =
      find_schedule_rows({cut.shape, cut.costs, cut.options}, {.actions = 2'000'000, .parts = parts}).value();
  const auto optimum = exact_row_makespan(problem, found.schedule ? found.makespan : found::kNever,
                                          testing::tests_everything() ? 300'000 : 20'000);
  if (!optimum) return;
  ++tally.solved;
  SCOPED_TRACE(cut.name);
  if (*optimum == found::kNever) {
    EXPECT_FALSE(found.schedule) << "no order fits";
    return;
  }
  ASSERT_GE(*optimum, found.bound.value) << found.bound.argument;
  ASSERT_TRUE(found.schedule);
  ASSERT_GE(found.makespan, *optimum * (1 - 1e-12)) << found.origin;
  tally.met += found.bound.value >= *optimum * (1 - 1e-9);
  tally.optimal += found.makespan <= *optimum * (1 + 1e-9);
  tally.worst = std::max(tally.worst, found.makespan / *optimum - 1);
}

TEST(ExactRows, LieBetweenBoundsAndFoundRows) {
  Tally tally;
  const uint64_t count = testing::tests_everything() ? 1000 : 150;
  const found_cuts::Limits limits{
      .ranks = 3, .micro_batches = 4, .replicas = false, .sums = false, .uneven_batches = false};
  for (uint64_t seed = 1; seed <= count && !HasFailure(); ++seed) compare(seed, limits, tally);
  fmt::print("{} solved, {} found optimal, worst {:.2f} %, bound met by {}\n", tally.solved, tally.optimal,
             100 * tally.worst, tally.met);
  EXPECT_GE(tally.solved, static_cast<int>(count * 2 / 3));
}

}  // namespace
}  // namespace rannc::partition
