// U6: Boost.Graph's cuts and our own against all cuts of small networks.
#include "ir/base/cut_network.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <tuple>

namespace rannc::ir {
namespace {

using Arc = std::tuple<uint32_t, uint32_t, int64_t>;

/// The side that `tie` makes smallest, as bits, of the cheapest of all cuts.
uint32_t by_force(uint32_t nodes, const std::vector<Arc>& arcs, CutNetwork::Tie tie) {
  const uint32_t source = 1, sink = 1u << (nodes - 1);
  int64_t least = INT64_MAX;
  uint32_t found = 0;
  for (uint32_t side = source; side < sink; side += 2) {  // the source, node 0, without the sink, the last
    int64_t cost = 0;
    for (const auto& [from, to, capacity] : arcs) cost += (side >> from & 1) && !(side >> to & 1) ? capacity : 0;
    const uint32_t own = tie == CutNetwork::Tie::kFewestBySource ? side : ~side & (2 * sink - 1);
    if (cost > least || (cost == least && std::popcount(own) >= std::popcount(found))) continue;
    least = cost;
    found = own;
  }
  return found;
}

TEST(CutNetwork, EverySolverFindsTheSmallestSideOfACheapestCut) {
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    std::mt19937_64 random(seed);
    const uint32_t nodes = 2 + static_cast<uint32_t>(random() % 8);
    // Few sizes, so that several cuts cost the least; some above what a double tells apart.
    const int64_t unit = seed % 3 == 0 ? (int64_t{1} << 54) + 1 : 1;
    std::vector<Arc> arcs;
    CutNetwork network(nodes);
    for (uint64_t i = random() % (3 * nodes); i > 0; --i) {
      const auto from = static_cast<uint32_t>(random() % nodes), to = static_cast<uint32_t>(random() % nodes);
      if (from == to) continue;
      arcs.emplace_back(from, to, static_cast<int64_t>(random() % 4) * unit + static_cast<int64_t>(random() % 2));
      network.connect(from, to, std::get<2>(arcs.back()));
    }
    for (const auto tie : {CutNetwork::Tie::kFewestBySource, CutNetwork::Tie::kFewestBySink}) {
      const uint32_t expected = by_force(nodes, arcs, tie);
      for (const auto solver : {CutNetwork::Solver::kBoost, CutNetwork::Solver::kDinic}) {
        const std::vector<bool> side = network.smallest_side(0, nodes - 1, tie, solver);
        for (uint32_t v = 0; v < nodes; ++v)
          ASSERT_EQ(side[v], (expected >> v & 1) != 0)
              << "seed " << seed << " node " << v << " solver " << static_cast<int>(solver);
      }
    }
  }
}

}  // namespace
}  // namespace rannc::ir
