// RaNNC III.B step by step, and the hole that convexity of each pair leaves.
#include "partition/blocks/rannc_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "partition/blocks/block_state.h"
#include "partition/blocks/pair_matching.h"
#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

using testing::DagBuilder;
using testing::Weights;

const std::vector<uint32_t> kIdentity = [] {
  std::vector<uint32_t> ids(100'000);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}();

LevelGraph level_of(const Dag& dag) { return level_zero(dag, *topological_order(dag), 1); }

/// p -> r, p -> s, q -> r, q -> s.
Dag crossing_pair() {
  DagBuilder builder;
  const uint32_t p = builder.task(1), q = builder.task(2), r = builder.task(3), s = builder.task(4);
  for (uint32_t from : {p, q}) {
    for (uint32_t to : {r, s}) builder.read(from, to);
  }
  return std::move(builder).build();
}

TEST(PairMatching, RefusesTheSecondOfTwoConvexPairsThatFormACycleTogether) {
  const Dag dag = crossing_pair();
  const std::vector<uint32_t> both_pairs{0, 1, 0, 1};
  EXPECT_TRUE(block_is_convex(dag, both_pairs, 0));
  EXPECT_TRUE(block_is_convex(dag, both_pairs, 1));
  EXPECT_FALSE(quotient_is_acyclic(dag, both_pairs, 2));

  const LevelGraph graph = level_zero(dag, std::vector<uint32_t>{0, 1, 2, 3}, 1);
  PairMatching matching(graph);
  EXPECT_TRUE(matching.try_merge(0, 2));
  EXPECT_FALSE(matching.try_merge(1, 3));
  EXPECT_EQ(matching.groups(), 3u);
}

TEST(PairMatching, ReordersWhereTheKeptOrderAloneWouldRefuse) {
  // 0 -> 1, 0 -> 4 and 3 -> 4, 2 -> 3: in the order 0 1 2 3 4 neither end of 0 -> 4 can take the other's place.
  DagBuilder builder;
  for (int i = 0; i < 5; ++i) builder.task(1);
  builder.read(0, 1);
  builder.read(0, 4);
  builder.read(3, 4);
  builder.read(2, 3);
  const Dag dag = std::move(builder).build();
  const LevelGraph graph = level_zero(dag, std::vector<uint32_t>{0, 1, 2, 3, 4}, 1);
  PairMatching matching(graph);
  ASSERT_TRUE(matching.try_merge(0, 4));
  const std::vector<uint32_t> group_of = matching.group_of();
  EXPECT_TRUE(quotient_is_acyclic(dag, group_of, 4));
  BlockPartition ranks{4, group_of};
  EXPECT_TRUE(check_partition(dag, ranks, UINT64_MAX, 1).ok()) << "groups are numbered topologically";
}

TEST(Coarsen, PicksInAscendingTimeAndTakesTheLightestNeighbour) {
  // A chain with works 5 1 4 2 9: 1 is picked first and joins 4, not 5; then 2 joins 9; 5 stays alone.
  DagBuilder builder;
  for (double work : {5.0, 1.0, 4.0, 2.0, 9.0}) builder.task(work);
  for (uint32_t t = 1; t < 5; ++t) builder.read(t - 1, t);
  const Dag dag = std::move(builder).build();
  const Hierarchy hierarchy = coarsen(level_of(dag), 3, UINT64_MAX, StepReporter(nullptr, kIdentity));
  ASSERT_EQ(hierarchy.parent.size(), 1u);
  EXPECT_EQ(hierarchy.parent[0], (std::vector<uint32_t>{0, 1, 1, 2, 2}));
}

TEST(Coarsen, StopsInsideALevelWhenKIsReached) {
  DagBuilder builder;
  for (uint32_t t = 0; t < 64; ++t) {
    builder.task(1);
    if (t > 0) builder.read(t - 1, t);
  }
  const Dag dag = std::move(builder).build();
  for (uint32_t k = 1; k <= 64; ++k) {
    const Hierarchy hierarchy = coarsen(level_of(dag), k, UINT64_MAX, StepReporter(nullptr, kIdentity));
    EXPECT_EQ(hierarchy.levels.back().nodes(), k);
  }
}

TEST(Coarsen, MergesNothingBeyondMemory) {
  DagBuilder builder;
  for (uint32_t t = 0; t < 16; ++t) {
    builder.task(1, 60);
    if (t > 0) builder.read(t - 1, t);
  }
  const Dag dag = std::move(builder).build();
  const Hierarchy hierarchy = coarsen(level_of(dag), 1, 119, StepReporter(nullptr, kIdentity));
  EXPECT_EQ(hierarchy.levels.back().nodes(), 16u);
}

TEST(Coarsen, NeverMakesACyclicLevel) {
  uint32_t levels = 0;
  for (uint64_t seed = 1; seed <= 2'000; ++seed) {
    const char* family = seed % 3 == 0 ? "layered" : seed % 3 == 1 ? "crossing" : "butterfly";
    const Dag dag = testing::make_graph({family, 60, seed, seed % 2 ? Weights::kUnit : Weights::kRandom});
    const Hierarchy hierarchy = coarsen(level_of(dag), 4, UINT64_MAX, StepReporter(nullptr, kIdentity));
    for (const LevelGraph& level : hierarchy.levels) {
      for (uint32_t e = 0; e < level.nets(); ++e) {
        for (uint32_t reader : level.readers(e)) ASSERT_LT(level.producer(e), reader) << family << " seed " << seed;
      }
      ++levels;
    }
  }
  EXPECT_GT(levels, 4'000u);
}

TEST(Uncoarsen, NeverRaisesTheCrossingCost) {
  uint32_t improved = 0;
  for (const std::string& family : testing::graph_families()) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      const Dag dag = testing::make_graph({family, 120, seed, Weights::kRandom});
      const StepReporter silent(nullptr, kIdentity);
      const Hierarchy hierarchy = coarsen(level_of(dag), 6, UINT64_MAX, silent);
      const uint32_t groups = hierarchy.levels.back().nodes();
      std::vector<uint32_t> blocks(groups);
      std::iota(blocks.begin(), blocks.end(), 0);
      const double before = BlockState(hierarchy.levels.back(), blocks, groups).crossing_cost();
      const std::vector<uint32_t> after = uncoarsen(hierarchy, blocks, groups, UINT64_MAX, silent);
      const double cost = BlockState(hierarchy.levels.front(), after, groups).crossing_cost();
      ASSERT_LE(cost, before * (1 + 1e-9)) << family << " seed " << seed;
      improved += cost < before * 0.999;
    }
  }
  EXPECT_GT(improved, 100u);
}

TEST(Compact, MergesTheLightestWithItsLighterNeighbourThatFits) {
  DagBuilder builder;
  for (double work : {3.0, 1.0, 2.0, 5.0}) builder.task(work, work == 2.0 ? 90 : 20);
  for (uint32_t t = 1; t < 4; ++t) builder.read(t - 1, t);
  const Dag dag = std::move(builder).build();
  Hierarchy hierarchy;
  hierarchy.levels.push_back(level_of(dag));
  const StepReporter silent(nullptr, kIdentity);
  std::vector<uint32_t> free{0, 1, 2, 3}, tight = free;
  EXPECT_EQ(compact(hierarchy, free, 4, 3, UINT64_MAX, silent), 3u);
  EXPECT_EQ(free, (std::vector<uint32_t>{0, 1, 1, 2})) << "1 joins 2, lighter than 3";
  EXPECT_EQ(compact(hierarchy, tight, 4, 3, 100, silent), 3u);
  EXPECT_EQ(tight, (std::vector<uint32_t>{0, 0, 1, 2})) << "1 and 2 exceed the memory, so 1 joins 3";
}

/// What crosses between the final blocks of a partitioner; nothing where it found none.
std::optional<double> crossing(std::string_view name, const Dag& dag, const BlockOptions& options) {
  const auto outcome = (*make_block_partitioner(name))->partition(dag, options);
  EXPECT_TRUE(outcome.ok()) << outcome.diagnostic().str();
  if (!outcome.ok() || !outcome->partition) return std::nullopt;
  return measure(dag, outcome->partition->block_of, outcome->partition->count).crossing_cost;
}

/// Whether coarsening and compaction alone reach k blocks. Otherwise a search by memory finds them.
bool reaches_k(const Dag& dag, const BlockOptions& options) {
  const StepReporter silent(nullptr, kIdentity);
  const Hierarchy hierarchy = coarsen(level_of(dag), options.blocks, options.memory_limit_bytes, silent);
  std::vector<uint32_t> blocks(dag.tasks());
  std::iota(blocks.begin(), blocks.end(), 0);
  for (const std::vector<uint32_t>& parent : hierarchy.parent) {
    for (uint32_t& block : blocks) block = parent[block];
  }
  return compact(hierarchy, blocks, hierarchy.levels.back().nodes(), options.blocks, options.memory_limit_bytes,
                 silent) == options.blocks;
}

// Compaction after it is greedy, so that better blocks before it may become worse ones.
TEST(Blocks, UncoarseningNeverRaisesWhatCrossesBetweenTheFinalBlocks) {
  uint32_t lower = 0, compared = 0;
  for (const std::string& family : testing::graph_families()) {
    for (uint64_t seed = 1; seed <= 120; ++seed) {
      const Dag dag = testing::make_graph({family, 120, seed, seed % 2 ? Weights::kRandom : Weights::kUnit});
      BlockOptions options;
      options.blocks = 2 + seed % 9;
      uint64_t total = 0;
      for (uint32_t t = 0; t < dag.tasks(); ++t) total += dag.resident_bytes[t] + dag.stashed_bytes[t];
      if (seed % 3 != 0)
        options.memory_limit_bytes = total / options.blocks * (seed % 3 == 1 ? 2 : 5) / (seed % 3 == 1 ? 1 : 4);
      const auto with = crossing("rannc", dag, options), without = crossing("rannc-no-uncoarsening", dag, options);
      EXPECT_GE(with.has_value(), without.has_value()) << family << " seed " << seed;
      if (!with || !without || !reaches_k(dag, options)) continue;
      EXPECT_LE(*with, *without * (1 + 1e-9)) << family << " seed " << seed;
      lower += *with < *without * 0.999;
      ++compared;
    }
  }
  EXPECT_GT(compared, 800u);
  EXPECT_GT(lower, 500u);
}

TEST(BlockState, GainEqualsTheFallOfTheMeasuredCost) {
  std::mt19937_64 random(7);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Dag dag = testing::make_graph({seed % 2 ? "layered" : "moe", seed % 2 ? 60u : 231u, seed, Weights::kRandom});
    const LevelGraph graph = level_zero(dag, *topological_order(dag), 1);
    std::vector<uint32_t> block_of(graph.nodes());
    for (uint32_t v = 0; v < graph.nodes(); ++v) block_of[v] = v * 4 / graph.nodes();
    BlockState state(graph, block_of, 4);
    for (int i = 0; i < 40; ++i) {
      const uint32_t node = random() % graph.nodes();
      const RankWindow window = state.window(node);
      const uint32_t target = window.low + random() % (window.high - window.low + 1);
      if (target == state.block(node)) continue;
      const double before = state.crossing_cost(), gain = state.gain(node, target);
      state.move(node, target);
      ASSERT_NEAR(before - gain, state.crossing_cost(), 1e-9 * (1 + before)) << "seed " << seed;
    }
  }
}

TEST(Blocks, ExactMemorySearchEqualsEnumeration) {
  // All rank functions of small graphs: is there a legal partition into exactly 3 blocks within memory?
  const auto partitioner = *make_block_partitioner("rannc");
  uint32_t possible = 0, impossible = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const Dag dag = testing::make_graph({seed % 2 ? "layered" : "crossing", 8, seed, Weights::kRandom});
    BlockOptions options;
    options.blocks = 3;
    uint64_t total = 0;
    for (uint32_t t = 0; t < dag.tasks(); ++t) total += dag.resident_bytes[t] + dag.stashed_bytes[t];
    options.memory_limit_bytes = total * (34 + seed % 12) / 100;
    bool exists = false;
    std::vector<uint32_t> rank(dag.tasks(), 0);
    for (uint64_t code = 0, end = static_cast<uint64_t>(std::pow(3, dag.tasks())); code < end && !exists; ++code) {
      uint64_t rest = code;
      for (uint32_t& r : rank) {
        r = rest % 3;
        rest /= 3;
      }
      exists = check_partition(dag, {3, rank}, options.memory_limit_bytes, 1).ok();
    }
    const auto outcome = partitioner->partition(dag, options);
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->partition.has_value(), exists) << "seed " << seed << ": " << outcome->reason;
    EXPECT_TRUE(exists || outcome->proven);
    ++(exists ? possible : impossible);
  }
  EXPECT_GT(possible, 20u);
  EXPECT_GT(impossible, 20u);
}

}  // namespace
}  // namespace rannc::partition
