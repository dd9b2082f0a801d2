#include "ir/base/cut_network.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "ir/base/flow_network.h"

namespace rannc::ir {

namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct FlowEdge {
  int64_t capacity = 0, left = 0;
  Traits::edge_descriptor reverse;
};
struct FlowNode {
  boost::default_color_type color = boost::white_color;
  int64_t distance = 0;
  Traits::edge_descriptor predecessor;
};
using Flow = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, FlowNode, FlowEdge>;

void add_pair(Flow& flow, size_t from, size_t to, int64_t capacity) {
  const auto there = add_edge(from, to, flow).first, again = add_edge(to, from, flow).first;
  flow[there].capacity = capacity;
  flow[there].reverse = again;
  flow[again].reverse = there;
}

/// Nodes that residual edges reach from `start`, or (`against`) from which they reach it.
std::vector<bool> reached(const Flow& flow, size_t start, bool against) {
  std::vector<bool> found(num_vertices(flow));
  std::vector<size_t> open{start};
  found[start] = true;
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    for (const auto edge : boost::make_iterator_range(out_edges(at, flow))) {
      const size_t other = target(edge, flow);
      const auto along = against ? flow[edge].reverse : edge;
      if (found[other] || flow[along].left == 0) continue;
      found[other] = true;
      open.push_back(other);
    }
  }
  return found;
}

}  // namespace

void CutNetwork::connect(uint32_t from, uint32_t to, int64_t capacity) { edges_.push_back({from, to, capacity}); }

std::vector<bool> CutNetwork::smallest_side(uint32_t source, uint32_t sink, Tie tie, Solver solver) const {
  if (solver == Solver::kDinic) {
    FlowNetwork<int64_t> network;
    network.reset(nodes_);
    for (const Edge& edge : edges_) network.add_edge(edge.from, edge.to, edge.capacity);
    network.min_cut(source, sink);
    if (tie == Tie::kFewestBySource) return network.source_side(source);
    std::vector<bool> side = network.not_sink_side(sink);
    side.flip();
    return side;
  }
  Flow flow(nodes_);
  for (const Edge& edge : edges_) add_pair(flow, edge.from, edge.to, edge.capacity);
  boykov_kolmogorov_max_flow(flow, get(&FlowEdge::capacity, flow), get(&FlowEdge::left, flow),
                             get(&FlowEdge::reverse, flow), get(&FlowNode::predecessor, flow),
                             get(&FlowNode::color, flow), get(&FlowNode::distance, flow),
                             get(boost::vertex_index, flow), source, sink);
  return tie == Tie::kFewestBySource ? reached(flow, source, false) : reached(flow, sink, true);
}

}  // namespace rannc::ir
