#include "passes/planning/internal/least_cut.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "ir/base/diagnostic.h"

namespace rannc::passes {

namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct Edge {
  int64_t capacity = 0, left = 0;
  Traits::edge_descriptor reverse;
};
struct Node {
  boost::default_color_type color = boost::white_color;
  int64_t distance = 0;
  Traits::edge_descriptor predecessor;
};
using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Node, Edge>;

void connect(Network& network, size_t from, size_t to, int64_t capacity, int64_t back = 0) {
  const auto there = add_edge(from, to, network).first, again = add_edge(to, from, network).first;
  network[there].capacity = capacity;
  network[again].capacity = back;
  network[there].reverse = again;
  network[again].reverse = there;
}

/// Nodes that still reach `sink` in the residual graph: they are on the sink's side of every minimum cut.
std::vector<bool> behind_the_cut(const Network& network, size_t sink) {
  std::vector<bool> behind(num_vertices(network));
  std::vector<size_t> left{sink};
  behind[sink] = true;
  while (!left.empty()) {
    const size_t at = left.back();
    left.pop_back();
    for (const auto edge : boost::make_iterator_range(out_edges(at, network))) {
      const size_t other = target(edge, network);
      if (behind[other] || network[network[edge].reverse].left == 0) continue;
      behind[other] = true;
      left.push_back(other);
    }
  }
  return behind;
}

}  // namespace

uint32_t LeastCut::add_item() {
  costs_.emplace_back();
  return static_cast<uint32_t>(costs_.size() - 1);
}

void LeastCut::pay(uint32_t item, int64_t on_first, int64_t on_second) {
  costs_[item].first += on_first;
  costs_[item].second += on_second;
}

void LeastCut::keep_together(std::vector<uint32_t> items, int64_t cost) { groups_.push_back({std::move(items), cost}); }

std::vector<bool> LeastCut::second_side() const {
  const size_t count = costs_.size(), source = count + 2 * groups_.size(), sink = source + 1;
  Network network(sink + 1);
  for (size_t item = 0; item < count; ++item) {
    const auto [first, second] = costs_[item];
    const int64_t both = std::min(first, second);
    if (second > both) connect(network, source, item, second - both);
    if (first > both) connect(network, item, sink, first - both);
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const size_t any_first = count + 2 * i, all_first = any_first + 1;
    connect(network, any_first, all_first, groups_[i].cost);
    for (const uint32_t item : groups_[i].items) {
      connect(network, item, any_first, kNever);
      connect(network, all_first, item, kNever);
    }
  }
  boykov_kolmogorov_max_flow(network, get(&Edge::capacity, network), get(&Edge::left, network),
                             get(&Edge::reverse, network), get(&Node::predecessor, network), get(&Node::color, network),
                             get(&Node::distance, network), get(boost::vertex_index, network), source, sink);
  std::vector<bool> second = behind_the_cut(network, sink);
  second.resize(count);
  return second;
}

}  // namespace rannc::passes
