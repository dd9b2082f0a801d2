// Orders of a level's nodes, against the definitions they implement.
#include "partition/blocks/orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

TEST(Orders, ByAscendingWorkSortsWorksThenIds) {
  std::mt19937_64 random(3);
  const double special[] = {0.0, -0.0, 5e-324, 1e-300, 1, 1, 2, 3, 1 + 1e-15, 1e300};
  for (const uint32_t nodes : {0u, 1u, 2u, 100u, 5000u}) {
    for (const bool few : {true, false}) {
      LevelGraph graph;
      for (uint32_t v = 0; v < nodes; ++v) {
        const double uniform = std::generate_canonical<double, 53>(random);
        graph.work.push_back(few || v % 3 == 0 ? special[random() % std::size(special)] : uniform * 1e6);
      }
      std::vector<uint32_t> expected(nodes);
      std::iota(expected.begin(), expected.end(), 0);
      std::stable_sort(expected.begin(), expected.end(),
                       [&](uint32_t a, uint32_t b) { return graph.work[a] < graph.work[b]; });
      EXPECT_EQ(by_ascending_work(graph), expected) << nodes;
    }
  }
}

/// What a node adds to the cost of live values: those it makes, without those that no other node reads any more.
double added_cost(const LevelGraph& graph, uint32_t node, const std::vector<bool>& done) {
  double cost = 0;
  for (uint32_t e : graph.outputs(node)) cost += graph.cost[e];
  for (uint32_t e : graph.inputs.row(node)) {
    const auto readers = graph.readers(e);
    const auto left = std::count_if(readers.begin(), readers.end(), [&](uint32_t reader) { return !done[reader]; });
    if (left == 1) cost -= graph.cost[e];
  }
  return cost;
}

bool is_ready(const LevelGraph& graph, uint32_t node, const std::vector<bool>& done) {
  const auto inputs = graph.inputs.row(node);
  return std::all_of(inputs.begin(), inputs.end(), [&](uint32_t e) { return done[graph.producer(e)]; });
}

/// With costs of 1 every sum is exact, so the next node costs least of all ready ones.
TEST(Orders, LeastLiveTakesTheCheapestReadyNode) {
  for (const std::string& family : testing::graph_families()) {
    SCOPED_TRACE(family);
    const Dag dag = testing::make_graph({family, 150, 1, testing::Weights::kUnit});
    LevelGraph graph = level_zero(dag, *topological_order(dag), 1);
    for (uint32_t e = 0; e < graph.nets(); ++e) graph.cost[e] = 1 + e % 3;
    const std::vector<uint32_t> order = order_nodes(graph, OrderKind::kLeastLive);
    ASSERT_EQ(order.size(), graph.nodes());
    std::vector<bool> done(graph.nodes(), false);
    for (const uint32_t node : order) {
      ASSERT_TRUE(!done[node] && is_ready(graph, node, done));
      const double cost = added_cost(graph, node, done);
      for (uint32_t v = 0; v < graph.nodes(); ++v) {
        if (done[v] || !is_ready(graph, v, done)) continue;
        ASSERT_LE(cost, added_cost(graph, v, done)) << v;
      }
      done[node] = true;
    }
  }
}

TEST(Orders, LeastLiveTakesTheLastReadyOfEqualCosts) {
  // Nodes 0 and 1 feed 2, which feeds 3 and 4. Sources come by id.
  LevelGraph graph;
  graph.work.assign(5, 1);
  graph.memory.assign(5, 0);
  graph.pins = {{0, 2, 4, 6, 8}, {0, 2, 1, 2, 2, 3, 2, 4}};
  graph.cost = {1, 1, 1, 1};
  index_nodes(graph);
  EXPECT_EQ(order_nodes(graph, OrderKind::kLeastLive), (std::vector<uint32_t>{0, 1, 2, 4, 3}));
}

}  // namespace
}  // namespace rannc::partition
