// Maintains a topological order of a level under pairwise merges.
#include "partition/blocks/pair_matching.h"

#include <algorithm>

namespace rannc::partition {
namespace {

constexpr size_t kMaxVisited = 24;   // groups that a reordering may visit on each side
constexpr size_t kMaxPins = 256;     // pins that a reordering may examine on each side
constexpr size_t kMaxDegree = 1024;  // neighbours that the O(degree) tests examine

/// Calls f(neighbour) for successors or predecessors, including repeats, until f returns false.
template <class F>
bool for_neighbours(const LevelGraph& graph, uint32_t node, bool forward, F&& f) {
  if (!forward) {
    for (uint32_t e : graph.inputs.row(node)) {
      if (!f(graph.producer(e))) return false;
    }
    return true;
  }
  for (uint32_t e : graph.outputs(node)) {
    for (uint32_t reader : graph.readers(e)) {
      if (!f(reader)) return false;
    }
  }
  return true;
}

}  // namespace

PairMatching::PairMatching(const LevelGraph& graph) : graph_(graph), groups_(graph.nodes()), nodes_(graph.nodes()) {
  for (uint32_t v = 0; v < graph.nodes(); ++v) nodes_[v] = {v, v, 0};
}

void PairMatching::join(uint32_t first, uint32_t second, uint32_t position) {
  nodes_[first].mate = second;
  nodes_[second].mate = first;
  nodes_[first].position = nodes_[second].position = position;
  --groups_;
}

bool PairMatching::try_merge(uint32_t first, uint32_t second) {
  size_t budget = kMaxDegree;
  const bool first_can_follow = for_neighbours(graph_, first, true, [&](uint32_t x) {
    return budget-- > 0 && (x == second || nodes_[x].position > nodes_[second].position);
  });
  if (first_can_follow) {
    join(first, second, nodes_[second].position);
    return true;
  }
  budget = kMaxDegree;
  const bool second_can_lead = for_neighbours(graph_, second, false, [&](uint32_t x) {
    return budget-- > 0 && (x == first || nodes_[x].position < nodes_[first].position);
  });
  if (second_can_lead) {
    join(first, second, nodes_[first].position);
    return true;
  }
  return reorder(first, second);
}

/// Collects groups reachable from `start` (not by the edge to `avoid`) with positions between the two. Returns false if
/// `avoid` is reached, which makes the merge a cycle, or if the budget is spent.
bool PairMatching::collect(uint32_t start, uint32_t avoid, bool forward, std::vector<uint32_t>& found) {
  ++search_;
  found.clear();
  size_t pins = kMaxPins;
  const uint32_t end = nodes_[avoid].position;
  auto visit = [&](uint32_t from, uint32_t x) {
    if (pins-- == 0) return false;
    if (x == avoid) return from == start;
    Node& node = nodes_[x];
    const bool beyond = forward ? node.position > end : node.position < end;
    if (beyond || x == start || node.stamp == search_) return true;
    if (found.size() == kMaxVisited) return false;
    node.stamp = nodes_[node.mate].stamp = search_;
    found.push_back(x);
    return true;
  };
  if (!for_neighbours(graph_, start, forward, [&](uint32_t x) { return visit(start, x); })) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    const uint32_t x = found[i], mate = nodes_[x].mate;
    if (!for_neighbours(graph_, x, forward, [&](uint32_t y) { return visit(x, y); })) return false;
    if (mate != x && !for_neighbours(graph_, mate, forward, [&](uint32_t y) { return visit(mate, y); })) return false;
  }
  return true;
}

bool PairMatching::reorder(uint32_t first, uint32_t second) {
  if (!collect(first, second, true, after_) || !collect(second, first, false, before_)) return false;
  auto by_position = [&](uint32_t a, uint32_t b) { return nodes_[a].position < nodes_[b].position; };
  std::sort(after_.begin(), after_.end(), by_position);
  std::sort(before_.begin(), before_.end(), by_position);
  slots_.assign({nodes_[first].position, nodes_[second].position});
  for (uint32_t x : before_) slots_.push_back(nodes_[x].position);
  for (uint32_t x : after_) slots_.push_back(nodes_[x].position);
  std::sort(slots_.begin(), slots_.end());
  // before … | first and second | … after; one slot stays empty because two nodes share one.
  size_t slot = 0;
  for (uint32_t x : before_) nodes_[x].position = nodes_[nodes_[x].mate].position = slots_[slot++];
  join(first, second, slots_[slot]);
  slot += 2;
  for (uint32_t x : after_) nodes_[x].position = nodes_[nodes_[x].mate].position = slots_[slot++];
  return true;
}

std::vector<uint32_t> PairMatching::group_of() const {
  std::vector<uint32_t> rank(nodes_.size());
  for (uint32_t v = 0; v < rank.size(); ++v) rank[v] = nodes_[v].position;
  compress_ranks(rank, graph_.nodes());
  return rank;
}

}  // namespace rannc::partition
