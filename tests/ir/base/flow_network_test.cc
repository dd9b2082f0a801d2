// Minimum cuts against the maximum flows of another implementation.
#include "ir/base/flow_network.h"

#include <gtest/gtest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <random>
#include <tuple>

namespace rannc::ir {
namespace {

using Arc = std::tuple<uint32_t, uint32_t, double>;

/// By push-relabel, which shares nothing with Dinic's augmentations.
double max_flow(uint32_t nodes, const std::vector<Arc>& arcs, uint32_t source, uint32_t sink) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Properties = boost::property<boost::edge_capacity_t, double,
                                     boost::property<boost::edge_residual_capacity_t, double,
                                                     boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Properties>;
  Graph graph(nodes);
  const auto capacity = boost::get(boost::edge_capacity, graph);
  const auto reverse = boost::get(boost::edge_reverse, graph);
  for (const auto& [from, to, size] : arcs) {
    const auto there = boost::add_edge(from, to, graph).first, back = boost::add_edge(to, from, graph).first;
    capacity[there] = size;
    capacity[back] = 0;
    reverse[there] = back;
    reverse[back] = there;
  }
  return boost::push_relabel_max_flow(graph, source, sink);
}

double crossing(const std::vector<Arc>& arcs, const std::vector<bool>& side) {
  double sum = 0;
  for (const auto& [from, to, size] : arcs) sum += side[from] && !side[to] ? size : 0;
  return sum;
}

/// Whole numbers; for `double` sixteenths, whose sums are exact.
template <class Capacity>
void expect_cuts_as_small_as_flows_are_large(Capacity tolerance) {
  for (uint64_t seed = 1; seed <= 1'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const uint32_t nodes = 2 + static_cast<uint32_t>(random() % 30);
    std::vector<Arc> arcs;
    FlowNetwork<Capacity> network;
    network.reset(nodes);
    for (uint64_t i = random() % (4 * nodes); i > 0; --i) {
      const auto from = static_cast<uint32_t>(random() % nodes), to = static_cast<uint32_t>(random() % nodes);
      if (from == to) continue;
      const auto size = [&] {
        return static_cast<Capacity>(random() % 400) / static_cast<Capacity>(std::is_integral_v<Capacity> ? 1 : 16);
      };
      const Capacity there = size(), back = random() % 3 == 0 ? size() : 0;
      network.add_edge(from, to, there, back);
      arcs.emplace_back(from, to, there);
      arcs.emplace_back(to, from, back);
    }
    const auto cut = static_cast<double>(network.min_cut(0, nodes - 1, tolerance));
    ASSERT_DOUBLE_EQ(cut, max_flow(nodes, arcs, 0, nodes - 1));
    const auto smallest = network.source_side(0, tolerance), largest = network.not_sink_side(nodes - 1, tolerance);
    for (const auto& side : {smallest, largest}) {
      ASSERT_TRUE(side[0]);
      ASSERT_FALSE(side[nodes - 1]);
      ASSERT_DOUBLE_EQ(crossing(arcs, side), cut);
    }
    for (uint32_t v = 0; v < nodes; ++v) ASSERT_LE(smallest[v], largest[v]);
  }
}

TEST(FlowNetwork, CutsAreAsSmallAsFlowsAreLarge) {
  expect_cuts_as_small_as_flows_are_large<double>(1e-9);
  expect_cuts_as_small_as_flows_are_large<int64_t>(0);
}

}  // namespace
}  // namespace rannc::ir
