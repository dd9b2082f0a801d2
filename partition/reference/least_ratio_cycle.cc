#include "partition/reference/least_ratio_cycle.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/base/diagnostic.h"

namespace rannc::partition {
namespace {

using Edge = RatioGraph::Edge;

/// The edges into each node, with their sources.
struct Reverse {
  std::vector<size_t> first;
  std::vector<std::pair<uint32_t, size_t>> sources;

  explicit Reverse(const RatioGraph& graph) : first(graph.size() + 1, 0), sources(graph.edges.size()) {
    for (const Edge& edge : graph.edges) ++first[edge.to + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<size_t> at(first.begin(), first.end() - 1);
    for (uint32_t v = 0; v < graph.size(); ++v) {
      for (size_t e = graph.first[v]; e < graph.first[v + 1]; ++e) sources[at[graph.edges[e].to]++] = {v, e};
    }
  }
};

class LeastRatio {
 public:
  explicit LeastRatio(const RatioGraph& graph)
      : graph_(graph), reverse_(graph), alive_(graph.size(), true), policy_(graph.size()), distance_(graph.size()) {}

  RatioCycle run() {
    order_ = {0};
    reached_.assign(graph_.size(), false);
    reached_[0] = true;
    spread(0, [](uint32_t, size_t) { return true; });
    alive_ = reached_;
    if (!close_first_cycle()) return {};
    RatioCycle best;
    do {
      RatioCycle cycle = best_cycle();
      const bool shorter = best.batches == 0 || cycle.less_than(best);
      if (shorter) best = std::move(cycle);
      evaluate(best, shorter);
    } while (improve(best));
    return best;
  }

 private:
  /// Lets node 0 go on to a node from which it is reachable.
  bool close_first_cycle() {
    for (size_t e = graph_.first[0]; e < graph_.first[1]; ++e) {
      if (!alive_[graph_.edges[e].to]) continue;
      policy_[0] = e;
      return true;
    }
    return false;
  }

  int64_t length(const Edge& edge, const RatioCycle& cycle) const {
    return static_cast<int64_t>(cycle.batches * edge.time) - static_cast<int64_t>(cycle.time * edge.batches);
  }

  /// Breadth first backwards from `order_[from]` on, along edges that are allowed: a reached node takes its edge as
  /// policy.
  template <class Allowed>
  void spread(size_t from, const Allowed& allowed) {
    for (size_t i = from; i < order_.size(); ++i) {
      for (size_t s = reverse_.first[order_[i]]; s < reverse_.first[order_[i] + 1]; ++s) {
        const auto& [source, edge] = reverse_.sources[s];
        if (reached_[source] || !alive_[source] || !allowed(source, edge)) continue;
        reached_[source] = true;
        policy_[source] = edge;
        order_.push_back(source);
      }
    }
  }

  /// The best cycle of the policy, in which each node has one successor.
  RatioCycle best_cycle() const {
    RatioCycle best;
    std::vector<uint32_t> mark(graph_.size(), 0);
    for (uint32_t begin = 0; begin < graph_.size(); ++begin) {
      if (!alive_[begin] || mark[begin] != 0) continue;
      uint32_t v = begin;
      for (; mark[v] == 0; v = next(v)) mark[v] = begin + 1;
      if (mark[v] != begin + 1) continue;  // leads into a cycle that is known
      RatioCycle cycle = cycle_from(v);
      if (best.batches == 0 || cycle.less_than(best)) best = std::move(cycle);
    }
    return best;
  }

  uint32_t next(uint32_t v) const { return graph_.edges[policy_[v]].to; }

  RatioCycle cycle_from(uint32_t begin) const {
    RatioCycle cycle;
    uint32_t v = begin;
    do {
      cycle.nodes.push_back(v);
      cycle.time += graph_.edges[policy_[v]].time;
      cycle.batches += graph_.edges[policy_[v]].batches;
    } while ((v = next(v)) != begin);
    RANNC_CHECK(cycle.batches > 0) << "a cycle without a batch";
    return cycle;
  }

  /// Distances to the cycle along the policy. If the cycle is new, nodes whose policy leads elsewhere get one to it.
  void evaluate(const RatioCycle& cycle, bool is_new) {
    const uint32_t root = cycle.nodes[0];
    reached_.assign(graph_.size(), false);
    reached_[root] = true;
    order_ = {root};
    spread(0, [&](uint32_t source, size_t edge) { return policy_[source] == edge; });
    if (is_new) {
      distance_[root] = 0;
      spread(0, [](uint32_t, size_t) { return true; });
    }
    for (size_t i = 1; i < order_.size(); ++i) {
      const Edge& edge = graph_.edges[policy_[order_[i]]];
      distance_[order_[i]] = length(edge, cycle) + distance_[edge.to];
    }
  }

  /// Takes shorter ways; false if there are none.
  bool improve(const RatioCycle& cycle) {
    bool improved = false;
    for (uint32_t v = 0; v < graph_.size(); ++v) {
      if (!alive_[v]) continue;
      for (size_t e = graph_.first[v]; e < graph_.first[v + 1]; ++e) {
        const Edge& edge = graph_.edges[e];
        const int64_t way = length(edge, cycle) + distance_[edge.to];
        if (!alive_[edge.to] || way >= distance_[v]) continue;
        distance_[v] = way;
        policy_[v] = e;
        improved = true;
      }
    }
    return improved;
  }

  const RatioGraph& graph_;
  const Reverse reverse_;
  std::vector<bool> reached_, alive_;  // alive: node 0 is reachable
  std::vector<size_t> policy_;         // edge that each node takes
  std::vector<uint32_t> order_;
  std::vector<int64_t> distance_;
};

}  // namespace

RatioCycle least_ratio_cycle(const RatioGraph& graph) { return LeastRatio(graph).run(); }

}  // namespace rannc::partition
