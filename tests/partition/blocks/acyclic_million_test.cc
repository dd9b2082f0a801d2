// No partitioner makes a cyclic quotient on a million random graphs.
#include <gtest/gtest.h>

#include "partition/blocks/block_partitioner.h"
#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

/// `partition` itself fails on a quotient that is not acyclic; the metric here does not trust its ranks.
TEST(Million, RandomGraphsHaveAcyclicQuotients) {
  const char* families[] = {"layered", "crossing", "butterfly", "series-parallel", "local"};
  const char* names[] = {"rannc", "multilevel", "order-dp"};
  uint32_t cyclic = 0, graphs = 0;
  for (uint64_t seed = 1; seed <= 200'000; ++seed) {
    for (const char* family : families) {
      const Dag dag = testing::make_graph({family, static_cast<uint32_t>(8 + seed % 17), seed});
      BlockOptions options;
      options.blocks = 2 + seed % 4;
      const auto outcome = make_block_partitioner(names[graphs % 3]).value()->partition(dag, options);
      ASSERT_TRUE(outcome.ok() && outcome->partition) << family << " seed " << seed;
      cyclic += !quotient_is_acyclic(dag, outcome->partition->block_of, options.blocks);
      ++graphs;
    }
  }
  EXPECT_EQ(cyclic, 0u);
  EXPECT_EQ(graphs, 1'000'000u);
}

}  // namespace
}  // namespace rannc::partition
