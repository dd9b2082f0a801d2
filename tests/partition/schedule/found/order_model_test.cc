/// The model of a search agrees with the simulator and with the memory verifier.
#include "partition/schedule/found/order_model.h"

#include <gtest/gtest.h>

#include "ir/schedule/schedule_memory.h"
#include "partition/schedule/found/lane_memory.h"
#include "partition/schedule/found/list_rows.h"
#include "partition/schedule/found/named_rows.h"
#include "partition/schedule/found/policies.h"
#include "tests/partition/schedule/found/random_cuts.h"

namespace rannc::partition::found {
namespace {

RowProblem problem_of(const found_cuts::Cut& cut) {
  return make_row_problem(cut.shape, cut.costs, BackwardParts::kSplit, {}, cut.options);
}

/// Rows of named schedules, and rows listed by a policy, as words.
std::vector<LaneRows> rows_for(const RowProblem& problem, uint64_t seed) {
  std::vector<LaneRows> all;
  for (const NamedRows& named : named_rows(problem)) {
    if (auto rows = words_of(problem, named.schedule)) all.push_back(*std::move(rows));
  }
  const std::vector<Policy> policies = first_policies(problem);
  ListedRows listed = list_rows(problem, policies[seed % policies.size()]);
  if (listed.complete) all.push_back(std::move(listed.rows));
  return all;
}

/// Without replicas, sums and steps, the model is the simulator, ports included.
TEST(OrderModel, EqualsTheSimulator) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const auto cut = found_cuts::random_cut(seed, {.replicas = false, .sums = false});
    const RowProblem problem = problem_of(cut);
    OrderModel model(problem);
    for (const LaneRows& rows : rows_for(problem, seed)) {
      const auto timeline = simulate(cut.shape, schedule_of(problem, rows, "rows"), cut.costs, cut.options);
      const double end = model.run(rows);
      ASSERT_EQ(timeline.ok(), end != kNever) << cut.name;
      if (!timeline.ok()) continue;
      ASSERT_DOUBLE_EQ(end, timeline->makespan) << cut.name;
      for (uint32_t l = 0; l < rows.size(); ++l) {
        for (uint32_t i = 0; i < rows[l].size(); ++i) {
          const uint32_t device = problem.lanes[l].devices[0].index();
          ASSERT_DOUBLE_EQ(model.start({l, i}), timeline->spans[device][i].start) << cut.name;
        }
      }
    }
  }
}

/// Delaying every action to its latest start delays no step. An action on a tight place has no room.
TEST(OrderModel, KnowsTheRoomOfEachAction) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const auto cut = found_cuts::random_cut(seed, {.replicas = false});
    const RowProblem problem = make_row_problem(cut.shape, cut.costs, BackwardParts::kSplit, {});
    OrderModel model(problem);
    for (const LaneRows& rows : rows_for(problem, seed)) {
      if (model.run(rows) == kNever) continue;
      const auto latest = model.latest_starts(rows);
      for (uint32_t l = 0; l < rows.size(); ++l) {
        for (uint32_t i = 0; i < rows[l].size(); ++i) ASSERT_GE(latest[l][i], model.start({l, i}) - 1e-9) << cut.name;
      }
      for (const Place& at : model.tight_places(rows))
        ASSERT_NEAR(latest[at.lane][at.position], model.start(at), 1e-9) << cut.name;
    }
  }
}

TEST(LaneBytes, EqualTheVerifier) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const auto cut = found_cuts::random_cut(seed, {.replicas = false});
    const RowProblem problem = problem_of(cut);
    const ir::Dependencies dependencies(cut.shape);
    LaneBytes bytes(problem);
    for (const LaneRows& rows : rows_for(problem, seed)) {
      const ir::Schedule schedule = schedule_of(problem, rows, "rows");
      for (uint32_t l = 0; l < rows.size(); ++l)
        ASSERT_EQ(bytes.peak(l, rows[l]), ir::row_peak(dependencies, schedule, problem.lanes[l].devices[0]))
            << cut.name;
    }
  }
}

/// Listed rows keep the limits, and a V with room for one micro-batch more than it needs does not block itself.
TEST(ListRows, KeepTheLimits) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const auto cut = found_cuts::random_cut(seed);
    const RowProblem problem = problem_of(cut);
    LaneBytes bytes(problem);
    for (const Policy& policy : first_policies(problem)) {
      const ListedRows listed = list_rows(problem, policy);
      if (!listed.complete) continue;
      for (uint32_t l = 0; l < listed.rows.size(); ++l)
        ASSERT_LE(bytes.peak(l, listed.rows[l]), problem.lanes[l].limit) << cut.name;
    }
  }
}

TEST(ListRows, NeverBlockEachOtherOnAV) {
  for (const int64_t limit : {2, 3, 4, 5, 8}) {
    const auto cut = found_cuts::v_shape("", 4, 12, {1, 1.2, 0.8, 0}, 0.25, limit);
    const RowProblem problem = problem_of(cut);
    for (const Policy& policy : first_policies(problem)) EXPECT_TRUE(list_rows(problem, policy).complete) << limit;
  }
}

TEST(Words, AreNumberedByTheirPositions) {
  const auto cut = found_cuts::chain("", 2, 3, {1, 1, 1, 0}, 0, 0);
  const RowProblem problem = problem_of(cut);
  const auto gpipe =
      ir::parse_schedule("schedule t\nd0: F0.0 F0.1 F0.2 B0.2 B0.1 B0.0\nd1: F1.0 F1.1 F1.2 I1.2 B1.1 W1.2 I1.0 W1.0",
                         cut.shape)
          .value();
  EXPECT_FALSE(words_of(problem, gpipe)) << "B1.1 adds its gradient before W1.2 does";
  const auto rows =
      ir::parse_schedule(
          "schedule t\nd0: F0.0 F0.1 F0.2 B0.2 B0.1 B0.0\nd1: F1.0 F1.1 F1.2 I1.2 I1.1 W1.2 W1.1 I1.0 W1.0", cut.shape)
          .value();
  EXPECT_EQ(ir::print_compute_rows(schedule_of(problem, words_of(problem, rows).value(), "t")),
            "0: F0 F1 F2 B0 B1 B2\n1: F0 F1 F2 I0 I1 W0 W1 I2 W2\n");
}

}  // namespace
}  // namespace rannc::partition::found
