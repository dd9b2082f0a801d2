// The bound on the crossing cost against every partition of small graphs.
#include "tests/partition/blocks/crossing_bound.h"

#include <gtest/gtest.h>

#include <limits>

#include "partition/blocks/block_partitioner.h"
#include "partition/blocks/interval_cut.h"
#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

using testing::DagBuilder;
using testing::Weights;

LevelGraph level_of(const Dag& dag) { return level_zero(dag, *topological_order(dag), 1); }

/// The least crossing cost over all assignments of ranks; infinity where none is balanced.
double brute_force(const Dag& dag, uint32_t blocks, double limit) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<uint32_t> block_of(dag.tasks(), 0);
  while (true) {
    if (check_partition(dag, {blocks, block_of}, UINT64_MAX, 1).ok()) {
      const PartitionMetrics metrics = measure(dag, block_of, blocks);
      if (metrics.largest_work <= limit) best = std::min(best, metrics.crossing_cost);
    }
    uint32_t t = 0;
    while (t < dag.tasks() && ++block_of[t] == blocks) block_of[t++] = 0;
    if (t == dag.tasks()) return best;
  }
}

TEST(CrossingBound, IsNeverAboveTheOptimumOfSmallGraphs) {
  uint32_t positive = 0, tight = 0, graphs = 0;
  for (const char* family : {"layered", "series-parallel", "crossing", "local", "multi"}) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      SCOPED_TRACE(std::string(family) + " seed " + std::to_string(seed));
      const uint32_t blocks = 2 + seed % 3, tasks = blocks == 4 ? 7 : 9;
      const Dag dag = testing::make_graph({family, tasks, seed, seed % 2 ? Weights::kUnit : Weights::kRandom});
      const LevelGraph graph = level_of(dag);
      const double limit = work_limit(graph, blocks, 0.05 * (seed % 4));
      const double best = brute_force(dag, blocks, limit);
      const double bound = crossing_bound(graph, blocks, limit);
      if (best == std::numeric_limits<double>::infinity()) continue;
      ASSERT_LE(bound, best * (1 + 1e-9));
      positive += bound > 0;
      tight += bound > 0 && bound >= best * (1 - 1e-6);
      ++graphs;
    }
  }
  EXPECT_GE(graphs, 250u);
  EXPECT_GE(positive, graphs / 2) << "a bound of 0 proves nothing";
  EXPECT_GE(tight, graphs / 16) << "the optimum itself is proved now and then";
}

TEST(CrossingBound, IsTheOptimumOfAChainWhoseCheapValuesStandWhereBalanceWantsNoCut) {
  // Twelve unit tasks, three blocks of four: the cuts after tasks 4 and 8 are forced and cost 5 and 7.
  DagBuilder builder;
  for (uint32_t t = 0; t < 12; ++t) {
    builder.task(1);
    if (t > 0) builder.read(t - 1, t);
  }
  const Dag dag = std::move(builder).build({1, 1, 1, 5, 1, 1, 1, 7, 1, 1, 1, 1});
  EXPECT_NEAR(crossing_bound(level_of(dag), 3, 4), 12, 1e-6);
  // With room for a fifth task the cuts move off the dear values.
  EXPECT_NEAR(crossing_bound(level_of(dag), 3, 5), 2, 1e-6);
}

TEST(CrossingBound, SharesAValueAmongTheCutsThatItMayCross) {
  // A value that skips every other task is received by the last block only, whatever lies between.
  DagBuilder builder;
  for (uint32_t t = 0; t < 9; ++t) {
    builder.task(1);
    if (t > 0) builder.read(t - 1, t);
  }
  builder.read(0, 8);
  const Dag dag = std::move(builder).build({100, 1, 1, 1, 1, 1, 1, 1, 1});
  const double optimum = brute_force(dag, 3, 3);
  EXPECT_LE(crossing_bound(level_of(dag), 3, 3), optimum * (1 + 1e-9));
  EXPECT_GT(crossing_bound(level_of(dag), 3, 3), 50);
}

}  // namespace
}  // namespace rannc::partition
