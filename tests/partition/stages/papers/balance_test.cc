// Balanced splits: torchgpipe's method and the exact one side by side.
#include "partition/stages/papers/balance.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "partition/stages/problem/profile_problem.h"
#include "tests/partition/stages/support/profiles.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

double best_by_force(const std::vector<double>& costs, size_t from, uint32_t parts) {
  if (parts == 1)
    return largest_block(costs, {static_cast<uint32_t>(costs.size())}) -
           (from > 0 ? largest_block(costs, {static_cast<uint32_t>(from)}) : 0);
  double best = 1e300, sum = 0;
  for (size_t end = from + 1; end + parts - 1 <= costs.size(); ++end) {
    sum += costs[end - 1];
    best = std::min(best, std::max(sum, best_by_force(costs, end, parts - 1)));
  }
  return best;
}

TEST(Balance, ExactIsOptimalAndBlockPartitionIsNear) {
  std::mt19937_64 random(3);
  int worse = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> costs(1 + random() % 9);
    for (double& cost : costs) cost = static_cast<double>(random() % 30);
    const uint32_t parts = 1 + static_cast<uint32_t>(random() % costs.size());
    const auto exact = exact_partition(costs, parts);
    ASSERT_EQ(exact.size(), parts);
    uint32_t before = 0;
    for (const uint32_t end : exact) {
      ASSERT_GT(end, before) << "instance " << i;
      before = end;
    }
    ASSERT_EQ(before, costs.size());
    const double optimum = best_by_force(costs, 0, parts);
    ASSERT_NEAR(largest_block(costs, exact), optimum, 1e-9) << "instance " << i;
    const auto near = block_partition(costs, parts);
    ASSERT_EQ(near.back(), costs.size());
    ASSERT_GE(largest_block(costs, near), optimum - 1e-9);
    worse += largest_block(costs, near) > optimum + 1e-9;
  }
  EXPECT_GE(worse, 200);
}

// The largest block as the released torchgpipe cuts, and the least possible by the textbook recurrence: in microseconds
// of forward + backward, and in bytes of parameters and activations.
TEST(Balance, PublishedProfiles) {
  struct Largest {
    double near, exact;
  };
  struct Row {
    const char* file;
    uint32_t parts;
    Largest us, bytes;
  };
  const Row rows[] = {{"vgg-19-pbs-32.txt", 2, {80800, 77460}, {1413118406, 1267992430}},
                      {"vgg-19-pbs-32.txt", 4, {47350, 39885}, {883147704, 744801735}},
                      {"vgg-19-pbs-32.txt", 8, {33750, 22545}, {480140869, 403006835}},
                      {"gnmt-16-pbs-64.txt", 2, {135760, 126261}, {1156315968, 1086552896}},
                      {"gnmt-16-pbs-64.txt", 4, {82562, 66553}, {791542592, 554696704}},
                      {"gnmt-16-pbs-64.txt", 8, {49228, 39824}, {604306240, 486832960}},
                      {"bert-48-pbs-2.txt", 2, {171917, 171917}, {1426665472, 1397666816}},
                      {"bert-48-pbs-2.txt", 4, {85997, 85997}, {715431936, 711233536}},
                      {"bert-48-pbs-2.txt", 8, {43037, 43037}, {441880576, 382971904}},
                      {"xlnet-36-pbs-1.txt", 2, {159540, 159540}, {1080002000, 1060004000}},
                      {"xlnet-36-pbs-1.txt", 4, {84840, 83000}, {594002000, 540000000}},
                      {"xlnet-36-pbs-1.txt", 8, {43340, 41500}, {324002000, 270000000}},
                      {"amoeba-18-pbs-8.txt", 2, {359940, 359940}, {1622346948, 1622346948}},
                      {"amoeba-18-pbs-8.txt", 4, {181330, 181330}, {955121664, 846069760}},
                      {"amoeba-18-pbs-8.txt", 8, {99300, 99300}, {519900356, 499908608}}};
  for (const Row& row : rows) {
    const auto profile = testing::shared_profile(std::string("dapple/") + row.file);
    if (!profile) GTEST_SKIP() << "no shared data at hand";
    const auto expect = [&](const std::vector<double>& costs, double unit, const Largest& expected) {
      EXPECT_NEAR(largest_block(costs, exact_partition(costs, row.parts)) * unit, expected.exact, 1) << row.file;
      EXPECT_NEAR(largest_block(costs, block_partition(costs, row.parts)) * unit, expected.near, 1) << row.file;
    };
    expect(testing::layer_costs(*profile), 1000, row.us);
    expect(testing::layer_sizes(*profile), 1, row.bytes);
  }
}

// Six layers of 120 ms and two of 3 and 1.5 ms behind them, by hand.
TEST(Balance, CheckedInProfile) {
  const std::vector<double> costs = testing::layer_costs(testing::checked_in_profile("convolutions-pbs-4.txt"));
  const auto exact = [&](uint32_t parts) { return largest_block(costs, exact_partition(costs, parts)); };
  EXPECT_NEAR(exact(1), 724.5, 1e-9);
  EXPECT_NEAR(exact(3), 244.5, 1e-9);
  EXPECT_NEAR(exact(4), 240, 1e-9);
  EXPECT_NEAR(exact(6), 124.5, 1e-9);
  EXPECT_NEAR(exact(7), 120, 1e-9);
  for (uint32_t parts = 1; parts <= 7; ++parts) {
    EXPECT_GE(largest_block(costs, block_partition(costs, parts)), exact(parts) - 1e-9);
  }
}

// Both planners, by time and by size, report their own method beside the other.
TEST(GpipePlanner, ReportsBothMethodsSideBySide) {
  const PipedreamProfile profile = testing::checked_in_profile("convolutions-pbs-4.txt");
  StageProblem problem =
      profile_problem(profile, *preset_cluster("flat:4"), {.profile_batch = 4, .mini_batch = 4}).value();
  problem.micro_batches = {1};
  const auto note = [&](BalanceBy by, BalanceMethod method) {
    const auto outcome = gpipe_planner(by, method)->plan(problem);
    const auto& notes = std::get<StagePlan>(*outcome).notes;
    return notes.empty() ? std::string() : notes.front();
  };
  for (const BalanceMethod method : {BalanceMethod::kBlockPartition, BalanceMethod::kExact}) {
    EXPECT_EQ(note(BalanceBy::kTime, method),
              "largest block by time: 240 ms by block partition, 240 ms by the exact partition (+0.0 %)");
    EXPECT_EQ(note(BalanceBy::kSize, method),
              "largest block by size: 1637 MB by block partition, 1600 MB by the exact partition (+2.3 %)");
  }
}

TEST(GpipePlanner, ExactIsNeverWorseThanBlockPartition) {
  int compared = 0;
  for (int i = 0; i < 200; ++i) {
    std::mt19937_64 random(static_cast<uint64_t>(i) + 777);
    StageProblem problem = testing::random_problem(random, {.most_blocks = 8, .most_devices = 5});
    problem.values.clear();
    problem.constraints = {};
    problem.micro_batches = {1};
    problem.recompute = RecomputeRule::kNever;
    const auto near = gpipe_planner()->plan(problem);
    const auto exact = gpipe_planner(BalanceBy::kTime, BalanceMethod::kExact)->plan(problem);
    ASSERT_TRUE(near.ok() && exact.ok());
    const auto& a = std::get<StagePlan>(*near);
    const auto& b = std::get<StagePlan>(*exact);
    ++compared;
    const auto largest = [](const StagePlan& plan) {
      double most = 0;
      for (const PlannedStage& stage : plan.stages) most = std::max(most, stage.forward_ns + stage.backward_ns);
      return most;
    };
    EXPECT_LE(largest(b), largest(a) * (1 + 1e-9));
    EXPECT_GE(a.objective, a.lower_bound);
  }
  EXPECT_EQ(compared, 200);
}

}  // namespace
}  // namespace rannc::partition
