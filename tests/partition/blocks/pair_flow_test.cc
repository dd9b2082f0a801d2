// A minimum cut between neighbouring blocks is legal at every move, within the limits, and as cheap as reported.
#include "partition/blocks/pair_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "partition/blocks/interval_cut.h"
#include "partition/blocks/orders.h"
#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

void expect_ranks(const LevelGraph& graph, const BlockState& state) {
  for (uint32_t e = 0; e < graph.nets(); ++e) {
    for (uint32_t reader : graph.readers(e)) ASSERT_LE(state.block(graph.producer(e)), state.block(reader));
  }
}

TEST(PairFlow, KeepsRanksAtEveryMoveAndLimitsAtTheEnd) {
  uint32_t moves = 0, improved = 0;
  for (const std::string& family : testing::graph_families()) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(family + " seed " + std::to_string(seed));
      const Dag dag = testing::make_graph({family, 150, seed, testing::Weights::kRandom});
      const LevelGraph graph = level_zero(dag, *topological_order(dag), 1);
      constexpr uint32_t kBlocks = 4;
      const double work = work_limit(graph, kBlocks, 0.2);
      auto blocks = cut_order(graph, order_nodes(graph, OrderKind::kBreadthFirst), {kBlocks, work, UINT64_MAX});
      ASSERT_TRUE(blocks.has_value());
      BlockState state(graph, *std::move(blocks), kBlocks);
      uint64_t memory = 0;
      for (uint32_t b = 0; b < kBlocks; ++b) memory = std::max(memory, state.memory(b));
      const double before = state.crossing_cost();
      const Refined refined = refine_by_flow(graph, state, {work, memory, work, UINT64_MAX}, [&] {
        ++moves;
        expect_ranks(graph, state);
      });
      EXPECT_NEAR(before - state.crossing_cost(), refined.gain, 1e-6 * (1 + before));
      for (uint32_t b = 0; b < kBlocks; ++b) {
        EXPECT_LE(state.memory(b), memory);
        EXPECT_LE(state.work(b), work * (1 + 1e-9));
        EXPECT_GT(state.size(b), 0u);
      }
      improved += refined.gain > 0;
    }
  }
  EXPECT_GT(moves, 1000u);
  EXPECT_GT(improved, 50u);
}

// The first cut spends a budget of one step, and more; the next is not begun.
TEST(PairFlow, StopsAtItsBudget) {
  const Dag dag = testing::make_graph({"layered", 400, 7, testing::Weights::kRandom});
  const LevelGraph graph = level_zero(dag, *topological_order(dag), 1);
  const double work = work_limit(graph, 8, 0.2);
  const auto blocks = cut_order(graph, order_nodes(graph, OrderKind::kBreadthFirst), {8, work, UINT64_MAX});
  ASSERT_TRUE(blocks.has_value());
  const auto spent = [&](uint64_t steps) {
    BlockState state(graph, *blocks, 8);
    return refine_by_flow(graph, state, {work, UINT64_MAX, work, steps}, {});
  };
  const Refined whole = spent(UINT64_MAX), one = spent(1);
  EXPECT_GT(one.evaluations, 0u);
  EXPECT_LT(one.evaluations, whole.evaluations / 2);
  EXPECT_LT(one.gain, whole.gain);
}

/// Two chains of eight; values cost 1, but those after the third task of each 0.25.
// Views on a GPU take no time. Blocks of them alone are refined like others, and the refinement ends.
TEST(PairFlow, EndsWhereNothingHasWork) {
  const Dag dag = testing::make_graph({"layered", 60, 3, testing::Weights::kRandom});
  LevelGraph graph = level_zero(dag, *topological_order(dag), 1);
  std::fill(graph.work.begin(), graph.work.end(), 0.);
  std::vector<uint32_t> halves(graph.nodes());
  for (uint32_t v = 0; v < graph.nodes(); ++v) halves[v] = v < graph.nodes() / 2 ? 0 : 1;
  BlockState state(graph, std::move(halves), 2);
  const double before = state.crossing_cost();
  const Refined refined = refine_by_flow(graph, state, {0, UINT64_MAX, 0, UINT64_MAX}, {});
  EXPECT_NEAR(before - state.crossing_cost(), refined.gain, 1e-6 * (1 + before));
  EXPECT_GT(refined.gain, 0);
  expect_ranks(graph, state);
}

TEST(PairFlow, FindsTheCheapestCutOfTwoChains) {
  testing::DagBuilder builder;
  std::vector<double> cost;
  for (uint32_t t = 0; t < 16; ++t) {
    builder.task(1);
    cost.push_back(t % 8 == 2 ? 0.25 : 1);
    if (t % 8 > 0) builder.read(t - 1, t);
  }
  const Dag dag = std::move(builder).build(cost);
  std::vector<uint32_t> order(16), blocks(16);
  for (uint32_t t = 0; t < 16; ++t) {
    order[t] = t;
    blocks[t] = t % 8 >= 5;
  }
  const LevelGraph graph = level_zero(dag, order, 1);
  BlockState state(graph, blocks, 2);
  const Refined refined = refine_by_flow(graph, state, {10, UINT64_MAX, 16, UINT64_MAX}, {});
  EXPECT_DOUBLE_EQ(state.crossing_cost(), 0.5);
  EXPECT_DOUBLE_EQ(refined.gain, 1.5);
}

}  // namespace
}  // namespace rannc::partition
