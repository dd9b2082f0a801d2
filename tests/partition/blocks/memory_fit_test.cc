// Exactly k blocks within memory: against enumeration, and where the exact search would not end.
#include "partition/blocks/memory_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/partition/blocks/random_graphs.h"

namespace rannc::partition {
namespace {

LevelGraph graph_of(testing::DagBuilder builder) {
  const Dag dag = std::move(builder).build();
  return level_zero(dag, *topological_order(dag), 1);
}

/// Whether some order of the nodes fills `blocks` blocks, each within the limit.
bool fits(const LevelGraph& graph, uint32_t blocks, uint64_t limit) {
  std::vector<uint32_t> order(graph.nodes());
  std::iota(order.begin(), order.end(), 0);
  do {
    std::vector<uint32_t> place(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    bool legal = true;
    for (uint32_t e = 0; e < graph.nets(); ++e) {
      for (const uint32_t reader : graph.readers(e)) legal &= place[graph.producer(e)] < place[reader];
    }
    uint32_t used = 1;
    uint64_t held = 0;
    for (const uint32_t node : order) {
      const bool next = held + graph.memory[node] > limit;
      used += next;
      held = next ? graph.memory[node] : held + graph.memory[node];
    }
    if (legal && used <= blocks) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

TEST(MemoryFit, EqualsEnumerationOnSmallGraphs) {
  int none = 0, some = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    testing::DagBuilder builder;
    for (uint32_t t = 0; t < 6; ++t) {
      builder.task(1, 1 + random() % 9);
      for (uint32_t p = 0; p < t; ++p) {
        if (random() % 4 == 0) builder.read(p, t);
      }
    }
    const LevelGraph graph = graph_of(std::move(builder));
    const uint64_t total = std::accumulate(graph.memory.begin(), graph.memory.end(), uint64_t{0});
    const uint64_t limit =
        std::max(*std::max_element(graph.memory.begin(), graph.memory.end()), total / 3 + random() % 3);
    const MemoryFit fit = fit_memory(graph, 3, limit, 0.1, 1'000'000);
    const bool possible = fits(graph, 3, limit);
    EXPECT_EQ(fit.block_of.has_value(), possible);
    EXPECT_TRUE(possible || fit.exhaustive);
    (possible ? some : none) += 1;
  }
  EXPECT_GT(none, 20);
  EXPECT_GT(some, 20);
}

// Tasks without an order, and nearly as many bytes as all devices have: there are 2^n down-sets of n / 8 bytes each.
TEST(MemoryFit, EndsBeforeMemoryDoes) {
  testing::DagBuilder builder;
  std::mt19937_64 random(3);
  for (uint32_t t = 0; t < 4'000; ++t) builder.task(1, 600'000 + random() % 400'000);
  const LevelGraph graph = graph_of(std::move(builder));
  const uint64_t total = std::accumulate(graph.memory.begin(), graph.memory.end(), uint64_t{0});
  const MemoryFit fit = fit_memory(graph, 1'000, total / 1'000 + 1'000, 0.1, 5'000'000);
  EXPECT_FALSE(fit.block_of.has_value());
  EXPECT_FALSE(fit.exhaustive);
  EXPECT_GT(fit.down_sets, 0u);
  EXPECT_LE(fit.down_sets * (4'000 / 8), 256u << 20);
}

}  // namespace
}  // namespace rannc::partition
