/// Plans of planner `auto` for memory that no usual schedule fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "partition/stages/problem/places.h"
#include "partition/stages/search/auto.h"
#include "tests/partition/stages/support/random_problem.h"

namespace rannc::partition {
namespace {

using Lean = AutoOptions::Lean;

/// A block's fixed bytes, and those of a micro-batch.
struct Block {
  double held = 0, each = 0;
};

/// A chain of blocks without messages. Micro-batches have one sample.
StageProblem chain(const std::vector<Block>& blocks, uint32_t devices, double memory) {
  StageProblem problem;
  problem.blocks = static_cast<uint32_t>(blocks.size());
  TimeTable table{{1}, {{}}, {{}}};
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    table.forward[0].push_back(100);
    table.backward[0].push_back(200);
    problem.buffer_bytes.push_back(blocks[b].held);
    problem.stashed_bytes_per_sample.push_back(blocks[b].each);
    if (b > 0) problem.values.push_back({b - 1, {b}, 0, 0, true});
  }
  problem.times.push_back(table);
  problem.parameter_bytes.assign(problem.blocks, 0);
  const DeviceKind kind{"d", static_cast<uint64_t>(memory), 1e12, 1e15, 0};
  problem.cluster = make_cluster("equal", kind, 1, devices, {1e18, 0}, {1e18, 0});
  problem.mini_batch = 16;
  problem.micro_batches = {16};
  return problem;
}

StageOutcome planned(const StageProblem& problem, Lean lean = Lean::kIfNothingFits,
                     std::vector<std::string> schedules = {}) {
  AutoOptions options;
  options.lean = lean;
  options.schedules = std::move(schedules);
  return auto_planner(options)->plan(problem).value();
}

bool exists(const StageOutcome& outcome) { return std::holds_alternative<StagePlan>(outcome); }

TEST(LeanSchedules, AreUsedWhereNoOtherFits) {
  const StageProblem tight = chain({{4, 1}, {4, 1}}, 2, 5);
  EXPECT_FALSE(exists(planned(tight, Lean::kNever)));
  const StageOutcome outcome = planned(tight);
  ASSERT_TRUE(exists(outcome));
  EXPECT_THAT(std::get<StagePlan>(outcome).notes,
              ::testing::Contains(::testing::HasSubstr("of those that hold least")));
  EXPECT_FALSE(exists(planned(tight, Lean::kIfNothingFits, {"1f1b", "found"}))) << "the user's schedules are the only";
  EXPECT_TRUE(exists(planned(tight, Lean::kIfNothingFits, {"found"})));
  EXPECT_FALSE(exists(planned(chain({{4, 1}, {5, 1}}, 2, 5))));
}

/// Sums of 7 and 8 with blocks 0, 2, 4 and 1, 3, 5; contiguous stages have 9 or more.
TEST(LeanSchedules, PlaceSeveralStagesOnADevice) {
  const std::vector<Block> blocks = {{4, 1}, {0, 1}, {1, 1}, {4, 1}, {2, 1}, {3, 1}};
  double held = 0;
  for (const Block& block : blocks) held += block.held + block.each;
  StageProblem tight = chain(blocks, 2, held / 2);
  EXPECT_FALSE(exists(planned(tight, Lean::kNever)));
  const StageOutcome outcome = planned(tight);
  ASSERT_TRUE(exists(outcome));
  EXPECT_GE(places_of(std::get<StagePlan>(outcome)).most_stages(), 2u);
  tight.constraints.stages = 2;
  EXPECT_FALSE(exists(planned(tight))) << "a number of stages means devices of their own";
}

/// The least memory for one micro-batch at a time and a contiguous stage on each device.
double least_memory(const std::vector<Block>& blocks, uint32_t devices) {
  std::vector<std::vector<double>> least(devices + 1, std::vector<double>(blocks.size() + 1, 1e18));
  least[0][0] = 0;
  for (uint32_t d = 1; d <= devices; ++d) {
    for (size_t end = 1; end <= blocks.size(); ++end) {
      double stage = 0;
      for (size_t first = end; first-- > 0;) {
        stage += blocks[first].held + blocks[first].each;
        least[d][end] = std::min(least[d][end], std::max(least[d - 1][first], stage));
      }
    }
  }
  return least[devices].back();
}

/// Too many plans to try them all: stages are cut by memory.
TEST(LeanSchedules, ReachTheLeastMemoryOfContiguousStages) {
  std::mt19937_64 random(5);
  for (const auto& [count, devices] : {std::pair(24u, 4u), std::pair(40u, 8u), std::pair(64u, 16u)}) {
    std::vector<Block> blocks;
    for (uint32_t b = 0; b < count; ++b)
      blocks.push_back(
          {1000.0 * static_cast<double>(1 + random() % 4), 1000.0 * static_cast<double>(1 + random() % 3)});
    const double least = least_memory(blocks, devices);
    EXPECT_TRUE(exists(planned(chain(blocks, devices, least)))) << count << " blocks";
    EXPECT_FALSE(exists(planned(chain(blocks, devices, least), Lean::kNever))) << count << " blocks";
    const StageOutcome none = planned(chain(blocks, devices, 5000));
    const StageOutcome usual = planned(chain(blocks, devices, 5000), Lean::kNever);
    ASSERT_FALSE(exists(none));
    EXPECT_EQ(std::get<Infeasible>(none).missing_bytes, least - 5000);
    EXPECT_GT(std::get<Infeasible>(usual).missing_bytes, least - 5000);
  }
}

StageOutcome planned_after(const StageProblem& problem, Infeasible refused) {
  AutoOptions options;
  options.refused = std::move(refused);
  return auto_planner(options)->plan(problem).value();
}

TEST(LeanSchedules, AreTheOnlyOnesAfterARefusal) {
  const StageOutcome outcome = planned_after(chain({{4, 1}, {4, 1}}, 2, 1000), {"of a search", 1, ""});
  ASSERT_TRUE(exists(outcome));
  EXPECT_THAT(std::get<StagePlan>(outcome).notes,
              ::testing::Contains(::testing::HasSubstr("of those that hold least")));
  const StageProblem hopeless = chain({{4, 1}, {5, 1}}, 2, 5);
  EXPECT_EQ(std::get<Infeasible>(planned_after(hopeless, {"closer", 0.5, ""})).reason, "closer");
  EXPECT_EQ(std::get<Infeasible>(planned_after(hopeless, {"farther", 100, ""})).missing_bytes, 1);
}

TEST(LeanSchedules, AfterARefusalAreThoseOfTheWholeSearch) {
  std::mt19937_64 random(17);
  int found = 0, none = 0;
  for (int i = 0; i < 40; ++i) {
    std::vector<Block> blocks;
    for (uint32_t b = 0; b < 6; ++b)
      blocks.push_back({static_cast<double>(1 + random() % 4), static_cast<double>(1 + random() % 3)});
    const uint32_t devices = 2 + i % 2;
    const StageProblem problem =
        chain(blocks, devices, std::floor(least_memory(blocks, devices) * (0.8 + 0.1 * (i % 4))));
    const StageOutcome first = planned(problem, Lean::kNever);
    if (exists(first)) continue;
    const StageOutcome outcome = planned_after(problem, std::get<Infeasible>(first));
    ++(exists(outcome) ? found : none);
    EXPECT_EQ(outcome, planned(problem)) << i;
  }
  EXPECT_GT(found, 5);
  EXPECT_GT(none, 5);
}

TEST(LeanSchedules, ChangeNoPlanThatFits) {
  std::mt19937_64 random(11);
  int fit = 0;
  for (int i = 0; i < 60; ++i) {
    const StageProblem problem =
        testing::random_problem(random, {.most_blocks = 6, .most_devices = 4, .tight = i % 2 == 0, .skips = true});
    const StageOutcome first = planned(problem, Lean::kNever);
    if (!exists(first)) continue;
    ++fit;
    EXPECT_EQ(first, planned(problem)) << i;
  }
  EXPECT_GT(fit, 20);
}

}  // namespace
}  // namespace rannc::partition
