// Maintains a topological order of a level under pairwise merges.
#include "partition/blocks/pair_matching.h"

#include <algorithm>
#include <numeric>

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

PairMatching::PairMatching(const LevelGraph& graph)
    : graph_(graph), groups_(graph.nodes()), position_(graph.nodes()), mate_(graph.nodes()), stamp_(graph.nodes(), 0) {
  std::iota(position_.begin(), position_.end(), 0);
  std::iota(mate_.begin(), mate_.end(), 0);
}

void PairMatching::join(uint32_t first, uint32_t second, uint32_t position) {
  mate_[first] = second;
  mate_[second] = first;
  position_[first] = position_[second] = position;
  --groups_;
}

bool PairMatching::try_merge(uint32_t first, uint32_t second) {
  size_t budget = kMaxDegree;
  const bool first_can_follow = for_neighbours(graph_, first, true, [&](uint32_t x) {
    return budget-- > 0 && (x == second || position_[x] > position_[second]);
  });
  if (first_can_follow) {
    join(first, second, position_[second]);
    return true;
  }
  budget = kMaxDegree;
  const bool second_can_lead = for_neighbours(graph_, second, false, [&](uint32_t x) {
    return budget-- > 0 && (x == first || position_[x] < position_[first]);
  });
  if (second_can_lead) {
    join(first, second, position_[first]);
    return true;
  }
  return reorder(first, second);
}

/// Collects groups reachable from `start` (not by the edge to `avoid`) with positions between the two. Returns false if
/// `avoid` is reached, which makes the merge a cycle, or if the budget is spent.
bool PairMatching::collect(uint32_t start, uint32_t avoid, bool forward, std::vector<uint32_t>& found) {
  ++search_;
  size_t pins = kMaxPins;
  auto visit = [&](uint32_t from, uint32_t x) {
    if (pins-- == 0) return false;
    if (x == avoid) return from == start;
    const bool beyond = forward ? position_[x] > position_[avoid] : position_[x] < position_[avoid];
    if (beyond || x == start || stamp_[x] == search_) return true;
    if (found.size() == kMaxVisited) return false;
    stamp_[x] = stamp_[mate_[x]] = search_;
    found.push_back(x);
    return true;
  };
  if (!for_neighbours(graph_, start, forward, [&](uint32_t x) { return visit(start, x); })) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    const uint32_t x = found[i], mate = mate_[x];
    if (!for_neighbours(graph_, x, forward, [&](uint32_t y) { return visit(x, y); })) return false;
    if (mate != x && !for_neighbours(graph_, mate, forward, [&](uint32_t y) { return visit(mate, y); })) return false;
  }
  return true;
}

bool PairMatching::reorder(uint32_t first, uint32_t second) {
  std::vector<uint32_t> after, before;  // groups, each represented by one of its nodes
  if (!collect(first, second, true, after) || !collect(second, first, false, before)) return false;
  auto by_position = [&](uint32_t a, uint32_t b) { return position_[a] < position_[b]; };
  std::sort(after.begin(), after.end(), by_position);
  std::sort(before.begin(), before.end(), by_position);
  std::vector<uint32_t> slots{position_[first], position_[second]};
  for (uint32_t x : before) slots.push_back(position_[x]);
  for (uint32_t x : after) slots.push_back(position_[x]);
  std::sort(slots.begin(), slots.end());
  // before … | first and second | … after; one slot stays empty because two nodes share one.
  size_t slot = 0;
  for (uint32_t x : before) position_[x] = position_[mate_[x]] = slots[slot++];
  join(first, second, slots[slot]);
  slot += 2;
  for (uint32_t x : after) position_[x] = position_[mate_[x]] = slots[slot++];
  return true;
}

std::vector<uint32_t> PairMatching::group_of() const {
  std::vector<uint32_t> rank = position_;
  compress_ranks(rank, graph_.nodes());
  return rank;
}

}  // namespace rannc::partition
