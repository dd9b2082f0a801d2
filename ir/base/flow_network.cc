// Implements Dinic's algorithm.
#include "ir/base/flow_network.h"

#include <algorithm>

namespace rannc::ir {

template <class Capacity>
void FlowNetwork<Capacity>::reset(uint32_t nodes) {
  first_.assign(nodes, kNone);
  edges_.clear();
}

template <class Capacity>
uint32_t FlowNetwork<Capacity>::add_node() {
  first_.push_back(kNone);
  return static_cast<uint32_t>(first_.size() - 1);
}

template <class Capacity>
void FlowNetwork<Capacity>::add_edge(uint32_t from, uint32_t to, Capacity capacity, Capacity back) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = static_cast<uint32_t>(edges_.size() - 1);
  edges_.push_back({from, first_[to], back});
  first_[to] = static_cast<uint32_t>(edges_.size() - 1);
}

template <class Capacity>
bool FlowNetwork<Capacity>::label(uint32_t source, uint32_t sink, Capacity tolerance) {
  level_.assign(first_.size(), kNone);
  queue_.assign(1, source);
  level_[source] = 0;
  for (size_t i = 0; i < queue_.size() && level_[sink] == kNone; ++i) {
    const uint32_t v = queue_[i];
    for (uint32_t e = first_[v]; e != kNone; e = edges_[e].next) {
      if (edges_[e].residual <= tolerance || level_[edges_[e].to] != kNone) continue;
      level_[edges_[e].to] = level_[v] + 1;
      queue_.push_back(edges_[e].to);
    }
  }
  return level_[sink] != kNone;
}

// Pushes flow along one augmenting path of the labels. Returns 0 at the end of the phase.
template <class Capacity>
Capacity FlowNetwork<Capacity>::push(uint32_t source, uint32_t sink, Capacity tolerance) {
  path_.clear();
  uint32_t v = source;
  while (v != sink) {
    uint32_t& e = current_[v];
    while (e != kNone && (edges_[e].residual <= tolerance || level_[edges_[e].to] != level_[v] + 1)) e = edges_[e].next;
    if (e != kNone) {
      path_.push_back(e);
      v = edges_[e].to;
      continue;
    }
    if (path_.empty()) return 0;
    const uint32_t back = path_.back();
    path_.pop_back();
    v = edges_[back ^ 1].to;
    current_[v] = edges_[current_[v]].next;
  }
  Capacity amount = kUncuttable;
  for (uint32_t e : path_) amount = std::min(amount, edges_[e].residual);
  for (uint32_t e : path_) {
    edges_[e].residual -= amount;
    edges_[e ^ 1].residual += amount;
  }
  return amount;
}

template <class Capacity>
Capacity FlowNetwork<Capacity>::min_cut(uint32_t source, uint32_t sink, Capacity tolerance, Capacity enough) {
  Capacity flow = 0;
  while (flow <= enough && label(source, sink, tolerance)) {
    current_ = first_;
    steps_ += edges_.size();
    for (Capacity amount = push(source, sink, tolerance); amount > 0; amount = push(source, sink, tolerance)) {
      flow += amount;
    }
  }
  return flow;
}

template <class Capacity>
std::vector<bool> FlowNetwork<Capacity>::joined(uint32_t start, uint32_t direction, Capacity tolerance) const {
  std::vector<bool> found(first_.size(), false);
  std::vector<uint32_t> stack{start};
  found[start] = true;
  while (!stack.empty()) {
    const uint32_t v = stack.back();
    stack.pop_back();
    for (uint32_t e = first_[v]; e != kNone; e = edges_[e].next) {
      if (edges_[e ^ direction].residual <= tolerance || found[edges_[e].to]) continue;
      found[edges_[e].to] = true;
      stack.push_back(edges_[e].to);
    }
  }
  return found;
}

template <class Capacity>
std::vector<bool> FlowNetwork<Capacity>::source_side(uint32_t source, Capacity tolerance) const {
  return joined(source, kAlong, tolerance);
}

template <class Capacity>
std::vector<bool> FlowNetwork<Capacity>::not_sink_side(uint32_t sink, Capacity tolerance) const {
  std::vector<bool> side = joined(sink, kAgainst, tolerance);
  side.flip();
  return side;
}

template class FlowNetwork<double>;
template class FlowNetwork<int64_t>;

}  // namespace rannc::ir
