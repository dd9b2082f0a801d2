// Computes topological orders of a level.
#include "partition/blocks/orders.h"

#include <algorithm>
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

/// Greedy by live cost: a node adds the values it produces and frees those whose last reader it is. The key of a node
/// is computed when it becomes ready. If the key falls later because the node became the last reader, the node is
/// re-queued.
std::vector<uint32_t> least_live(const LevelGraph& graph) {
  const uint32_t n = graph.nodes();
  std::vector<uint32_t> missing(n), left(graph.nets()), order;
  std::vector<double> key(n, 0);
  std::vector<bool> done(n, false);
  using Entry = std::tuple<double, uint32_t, uint32_t>;  // key, negated time of entry, node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  uint32_t clock = UINT32_MAX;
  for (uint32_t e = 0; e < graph.nets(); ++e) left[e] = static_cast<uint32_t>(graph.readers(e).size());
  auto enter = [&](uint32_t v) {
    for (uint32_t e : graph.outputs(v)) key[v] += graph.cost[e];
    for (uint32_t e : graph.inputs.row(v)) key[v] -= left[e] == 1 ? graph.cost[e] : 0;
    ready.emplace(key[v], clock--, v);
  };
  for (uint32_t v = n; v-- > 0;) {
    missing[v] = static_cast<uint32_t>(graph.inputs.row(v).size());
    if (missing[v] == 0) enter(v);
  }
  order.reserve(n);
  while (!ready.empty()) {
    const auto [value, when, v] = ready.top();
    ready.pop();
    if (done[v] || value != key[v]) continue;
    done[v] = true;
    order.push_back(v);
    for (uint32_t e : graph.inputs.row(v)) {
      if (--left[e] != 1) continue;
      for (uint32_t reader : graph.readers(e)) {
        if (done[reader] || missing[reader] > 0) continue;
        key[reader] -= graph.cost[e];
        ready.emplace(key[reader], clock--, reader);
      }
    }
    for (uint32_t e : graph.outputs(v)) {
      for (uint32_t reader : graph.readers(e)) {
        if (--missing[reader] == 0) enter(reader);
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
