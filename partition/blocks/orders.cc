// Orders the nodes of a level.
#include "partition/blocks/orders.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>

namespace rannc::partition {
namespace {

std::vector<uint32_t> depth_first(const LevelGraph& graph) {
  std::vector<uint32_t> missing(graph.nodes()), stack, order, ready;
  for (uint32_t v = 0; v < graph.nodes(); ++v) missing[v] = static_cast<uint32_t>(graph.inputs.row(v).size());
  for (uint32_t v = graph.nodes(); v-- > 0;) {
    if (missing[v] == 0) stack.push_back(v);
  }
  order.reserve(graph.nodes());
  while (!stack.empty()) {
    const uint32_t v = stack.back();
    stack.pop_back();
    order.push_back(v);
    ready.clear();
    for (uint32_t e : graph.outputs(v)) {
      for (uint32_t reader : graph.readers(e)) {
        if (--missing[reader] == 0) ready.push_back(reader);
      }
    }
    std::sort(ready.begin(), ready.end(), std::greater<>());
    stack.insert(stack.end(), ready.begin(), ready.end());
  }
  return order;
}

std::vector<uint32_t> depth_first_back(const LevelGraph& graph) {
  std::vector<uint32_t> missing(graph.nodes(), 0), stack, order, ready;
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    for (uint32_t e : graph.outputs(v)) missing[v] += static_cast<uint32_t>(graph.readers(e).size());
    if (missing[v] == 0) stack.push_back(v);
  }
  order.reserve(graph.nodes());
  while (!stack.empty()) {
    const uint32_t v = stack.back();
    stack.pop_back();
    order.push_back(v);
    ready.clear();
    for (uint32_t e : graph.inputs.row(v)) {
      if (--missing[graph.producer(e)] == 0) ready.push_back(graph.producer(e));
    }
    std::sort(ready.begin(), ready.end());
    stack.insert(stack.end(), ready.begin(), ready.end());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<uint32_t> breadth_first(const LevelGraph& graph) {
  const std::vector<uint32_t> level = longest_path_levels(graph);
  const uint32_t levels = level.empty() ? 0 : 1 + *std::max_element(level.begin(), level.end());
  std::vector<uint32_t> start(levels + 1, 0), order(graph.nodes());
  for (uint32_t l : level) ++start[l + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  for (uint32_t v = 0; v < graph.nodes(); ++v) order[start[level[v]]++] = v;
  return order;
}

/// A ready node with its key: the smallest key first, then the last entered. Compared without branches.
struct Ready {
  uint64_t key = 0;    // orders as the live cost does
  uint64_t entry = 0;  // negated time of entry, node

  bool operator>(const Ready& other) const { return (key > other.key) | ((key == other.key) & (entry > other.entry)); }
};

/// Orders finite numbers as integers.
uint64_t ordered_bits(double x) {
  const auto bits = std::bit_cast<uint64_t>(x + 0.0);  // -0 becomes 0
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}

/// Greedy by live cost: a node adds the values it produces and frees those whose last reader it is. The key of a node
/// is computed when it becomes ready. If the key falls later because the node became the last reader, the node is
/// re-queued.
std::vector<uint32_t> least_live(const LevelGraph& graph) {
  const uint32_t n = graph.nodes();
  struct Node {
    double key = 0;
    uint32_t missing = 0;
    bool done = false;
  };
  std::vector<uint32_t> left(graph.nets()), order;
  std::vector<Node> nodes(n);
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  uint32_t clock = UINT32_MAX;
  auto push = [&](uint32_t v) { ready.push({ordered_bits(nodes[v].key), uint64_t{clock--} << 32 | v}); };
  for (uint32_t e = 0; e < graph.nets(); ++e) left[e] = static_cast<uint32_t>(graph.readers(e).size());
  auto enter = [&](uint32_t v) {
    double& key = nodes[v].key;
    for (uint32_t e : graph.outputs(v)) key += graph.cost[e];
    for (uint32_t e : graph.inputs.row(v)) key -= left[e] == 1 ? graph.cost[e] : 0;
    push(v);
  };
  for (uint32_t v = n; v-- > 0;) {
    nodes[v].missing = static_cast<uint32_t>(graph.inputs.row(v).size());
    if (nodes[v].missing == 0) enter(v);
  }
  order.reserve(n);
  while (!ready.empty()) {
    const Ready top = ready.top();
    ready.pop();
    const auto v = static_cast<uint32_t>(top.entry);
    if (nodes[v].done || top.key != ordered_bits(nodes[v].key)) continue;
    nodes[v].done = true;
    order.push_back(v);
    for (uint32_t e : graph.inputs.row(v)) {
      if (--left[e] != 1) continue;
      for (uint32_t reader : graph.readers(e)) {
        Node& node = nodes[reader];
        if (node.done || node.missing > 0) continue;
        node.key -= graph.cost[e];
        push(reader);
      }
    }
    for (uint32_t e : graph.outputs(v)) {
      for (uint32_t reader : graph.readers(e)) {
        if (--nodes[reader].missing == 0) enter(reader);
      }
    }
  }
  return order;
}

}  // namespace

std::vector<uint32_t> longest_path_levels(const LevelGraph& graph) {
  std::vector<uint32_t> level(graph.nodes(), 0);
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    for (uint32_t e : graph.inputs.row(v)) level[v] = std::max(level[v], level[graph.producer(e)] + 1);
  }
  return level;
}

std::vector<uint32_t> by_ascending_work(const LevelGraph& graph) {
  constexpr uint32_t kDigit = 11;  // bits
  constexpr uint32_t kValues = 1 << kDigit;
  struct Pick {
    uint64_t work = 0;
    uint32_t node = 0;
  };
  std::vector<uint32_t> picks(graph.nodes());
  std::iota(picks.begin(), picks.end(), 0);
  if (std::is_sorted(graph.work.begin(), graph.work.end())) return picks;
  std::vector<Pick> now(graph.nodes()), next(graph.nodes());
  uint64_t all = UINT64_MAX, any = 0;
  for (uint32_t v = 0; v < graph.nodes(); ++v) {
    now[v] = {std::bit_cast<uint64_t>(graph.work[v] + 0.0), v};  // -0 becomes 0
    all &= now[v].work;
    any |= now[v].work;
  }
  const uint64_t differing = all ^ any;
  // From the lowest digit up, each pass keeps the order of equal digits. Digits that all works share order nothing.
  for (uint32_t shift = 0; shift < 64; shift += kDigit) {
    const auto digit = [&](uint64_t work) { return work >> shift & (kValues - 1); };
    if (digit(differing) == 0) continue;
    std::vector<uint32_t> start(kValues + 1, 0);
    for (const Pick& pick : now) ++start[digit(pick.work) + 1];
    std::partial_sum(start.begin(), start.end(), start.begin());
    for (const Pick& pick : now) next[start[digit(pick.work)]++] = pick;
    now.swap(next);
  }
  for (uint32_t i = 0; i < graph.nodes(); ++i) picks[i] = now[i].node;
  return picks;
}

std::vector<uint32_t> order_nodes(const LevelGraph& graph, OrderKind kind) {
  switch (kind) {
    case OrderKind::kDepthFirst:
      return depth_first(graph);
    case OrderKind::kDepthFirstBack:
      return depth_first_back(graph);
    case OrderKind::kBreadthFirst:
      return breadth_first(graph);
    case OrderKind::kLeastLive:
      return least_live(graph);
    case OrderKind::kGiven:
      break;
  }
  std::vector<uint32_t> order(graph.nodes());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace rannc::partition
