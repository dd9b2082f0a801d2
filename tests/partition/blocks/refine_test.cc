// Every move of the refinement keeps the limits, and the gain it reports is the one it made.
#include "partition/blocks/refine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partition/blocks/interval_cut.h"
#include "partition/blocks/orders.h"
#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

TEST(Refine, KeepsWorkAndMemoryAtEveryMoveAndReportsItsGain) {
  uint32_t moves = 0, improved = 0;
  for (const std::string& family : testing::graph_families()) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(family + " seed " + std::to_string(seed));
      const Dag dag = testing::make_graph({family, 120, seed, testing::Weights::kRandom});
      const LevelGraph graph = level_zero(dag, *topological_order(dag), 1);
      constexpr uint32_t kBlocks = 5;
      const double work = work_limit(graph, kBlocks, 0.2);
      auto blocks = cut_order(graph, order_nodes(graph, OrderKind::kBreadthFirst), {kBlocks, work, UINT64_MAX});
      ASSERT_TRUE(blocks.has_value());
      BlockState state(graph, *std::move(blocks), kBlocks);
      uint64_t memory = 0;
      for (uint32_t b = 0; b < kBlocks; ++b) memory = std::max(memory, state.memory(b));
      const double before = state.crossing_cost();
      const Refined refined = refine(graph, state, {work, memory, 4}, [&] {
        ++moves;
        for (uint32_t b = 0; b < kBlocks; ++b) {
          ASSERT_LE(state.memory(b), memory);
          ASSERT_LE(state.work(b), work * (1 + 1e-9));
          ASSERT_GT(state.size(b), 0u);
        }
      });
      EXPECT_NEAR(before - state.crossing_cost(), refined.gain, 1e-6 * (1 + before));
      EXPECT_GE(refined.gain, 0);
      EXPECT_GT(refined.evaluations, 0u);
      improved += refined.gain > 0;
    }
  }
  EXPECT_GT(moves, 1000u);
  EXPECT_GT(improved, 50u);
}

}  // namespace
}  // namespace rannc::partition
