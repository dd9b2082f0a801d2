// Blocks beside a plan's cuts are split: the pieces lie within the old blocks, and no path leaves one and comes back.
#include "partition/model/finer_blocks.h"

#include <gtest/gtest.h>

#include "partition/blocks/block_partitioner.h"
#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

using testing::graph_families;
using testing::make_graph;

TEST(SplitBlocks, PiecesAreConvexAndLieWithinTheOldBlocks) {
  const auto partitioner = make_block_partitioner("rannc").value();
  size_t split = 0;
  for (const std::string& family : graph_families()) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(family + ", seed " + std::to_string(seed));
      const Dag dag = make_graph({family, 300, seed, testing::Weights::kRandom});
      BlockOptions options;
      options.blocks = 7;
      const auto outcome = partitioner->partition(dag, options);
      ASSERT_TRUE(outcome.ok() && outcome->partition);
      const BlockPartition& coarse = *outcome->partition;
      const std::vector<uint32_t> pieces = {1, 3, 8, 8, 1, 1000, 2};
      const auto finer = split_blocks(dag, coarse, pieces);
      ASSERT_TRUE(finer.ok()) << finer.diagnostic().str();
      EXPECT_TRUE(check_partition(dag, finer->partition, UINT64_MAX, 1).ok());
      ASSERT_EQ(finer->first.size(), coarse.count + 1U);
      const PartitionMetrics metrics = measure(dag, coarse.block_of, coarse.count);
      for (uint32_t block = 0; block < coarse.count; ++block) {
        EXPECT_EQ(finer->first[block + 1] - finer->first[block], std::min(pieces[block], metrics.blocks[block].tasks));
        split += finer->first[block + 1] - finer->first[block] > 1 ? 1 : 0;
      }
      for (uint32_t task = 0; task < dag.tasks(); ++task) {
        const uint32_t block = coarse.block_of[task];
        EXPECT_LE(finer->first[block], finer->partition.block_of[task]);
        EXPECT_LT(finer->partition.block_of[task], finer->first[block + 1]);
      }
      for (uint32_t piece = 0; piece < finer->partition.count; ++piece)
        EXPECT_TRUE(block_is_convex(dag, finer->partition.block_of, piece)) << "piece " << piece;
    }
  }
  EXPECT_GT(split, 100U);
}

TEST(SplitBlocks, APlanKeepsItsCutsAndOnlyBlocksBesideThemAreSplit) {
  StagePlan plan;
  plan.stages.resize(3);
  plan.stages[0].end = plan.stages[1].first = 2;
  plan.stages[1].end = plan.stages[2].first = 3;
  plan.stages[2].end = 6;
  EXPECT_EQ(pieces_at_cuts(plan, 6, 4), (std::vector<uint32_t>{1, 4, 4, 4, 1, 1}));
  const FinerBlocks finer{{}, {0, 1, 5, 9, 13, 14, 15}};
  const StagePlan same = over_finer_blocks(plan, finer);
  EXPECT_EQ(same.stages[0].end, 5U);
  EXPECT_EQ(same.stages[1].first, 5U);
  EXPECT_EQ(same.stages[1].end, 9U);
  EXPECT_EQ(same.stages[2].end, 15U);
}

}  // namespace
}  // namespace rannc::partition
