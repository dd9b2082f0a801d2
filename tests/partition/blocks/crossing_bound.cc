// Bounds the crossing cost from below by values that every cut of a class must part.
#include "tests/partition/blocks/crossing_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "partition/blocks/orders.h"

namespace rannc::partition {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;  // of the whole, given away so that sums in another order prove nothing false

/// A path with the most nodes, in order.
std::vector<uint32_t> longest_path(const LevelGraph& graph) {
  const std::vector<uint32_t> level = longest_path_levels(graph);
  uint32_t v = static_cast<uint32_t>(std::max_element(level.begin(), level.end()) - level.begin());
  std::vector<uint32_t> path{v};
  while (level[v] > 0) {
    for (uint32_t e : graph.inputs.row(v)) {
      if (level[graph.producer(e)] + 1 != level[v]) continue;
      v = graph.producer(e);
      break;
    }
    path.push_back(v);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

/// Down-sets by how far they reach along one path: class i holds u1 … ui and not u(i+1).
class Classes {
 public:
  Classes(const LevelGraph& graph, uint32_t blocks, double work_limit)
      : graph_(graph),
        blocks_(blocks),
        limit_(work_limit),
        total_(std::accumulate(graph.work.begin(), graph.work.end(), 0.0)) {
    place_nodes();
    weigh();
    price();
  }

  /// The cheapest sequence of classes for the cuts 1 … blocks-1; infinity where no sequence is balanced.
  double cheapest() const {
    std::vector<double> best(1, 0);  // over the classes of the last cut, from `low` on; cut 0 is the empty set
    uint32_t low = 0;
    for (uint32_t cut = 1; cut < blocks_; ++cut) {
      const auto [first, last] = range(cut);
      if (first > last) return kInfinity;
      best = extend(best, low, first, last);
      low = first;
    }
    return *std::min_element(best.begin(), best.end());
  }

 private:
  /// first_[v]: first class that must hold v; last_[v]: last ui at or before v, so classes below it cannot hold v.
  void place_nodes() {
    const std::vector<uint32_t> path = longest_path(graph_);
    length_ = static_cast<uint32_t>(path.size());
    first_.assign(graph_.nodes(), length_ + 1);
    last_.assign(graph_.nodes(), 0);
    for (uint32_t i = 0; i < length_; ++i) first_[path[i]] = last_[path[i]] = i + 1;
    for (uint32_t v = 0; v < graph_.nodes(); ++v) {
      for (uint32_t e : graph_.inputs.row(v)) last_[v] = std::max(last_[v], last_[graph_.producer(e)]);
    }
    for (uint32_t v = graph_.nodes(); v-- > 0;) {
      for (uint32_t e : graph_.outputs(v)) {
        for (uint32_t reader : graph_.readers(e)) first_[v] = std::min(first_[v], first_[reader]);
      }
    }
  }

  void weigh() {
    least_.assign(length_ + 2, 0);
    std::vector<double> out(length_ + 2, 0);
    for (uint32_t v = 0; v < graph_.nodes(); ++v) {
      least_[first_[v]] += graph_.work[v];
      out[last_[v]] += graph_.work[v];
    }
    std::partial_sum(least_.begin(), least_.end(), least_.begin());
    std::partial_sum(out.begin(), out.end(), out.begin());
    most_ = std::move(out);  // in class i all that follow no u beyond ui
  }

  void price() {
    price_.assign(length_ + 2, 0);
    for (uint32_t e = 0; e < graph_.nets(); ++e) {
      const uint32_t producer = graph_.producer(e);
      uint32_t forced_end = 0, possible_end = 0;
      for (uint32_t reader : graph_.readers(e)) {
        forced_end = std::max(forced_end, last_[reader]);
        possible_end = std::max(possible_end, first_[reader]);
      }
      if (first_[producer] >= forced_end) continue;
      const double share = graph_.cost[e] / most_cuts(last_[producer], std::min(possible_end - 1, length_));
      price_[first_[producer]] += share;
      price_[forced_end] -= share;
    }
    std::partial_sum(price_.begin(), price_.end(), price_.begin());
  }

  /// How many cuts can lie in the classes low … high: t cuts have t - 1 blocks between them, which hold at least
  /// total - (blocks - t + 1) * limit.
  double most_cuts(uint32_t low, uint32_t high) const {
    if (!(limit_ > 0)) return std::max(1.0, blocks_ - 1.0);
    const double between = most_[high] - least_[low] + kRounding * total_;
    const double cuts = std::floor(blocks_ + 1 - (total_ - between) / limit_ + kRounding);
    return std::clamp(cuts, 1.0, std::max(1.0, blocks_ - 1.0));
  }

  /// Classes that cut number `cut` can fall into.
  std::pair<uint32_t, uint32_t> range(uint32_t cut) const {
    const double slack = kRounding * total_;
    const double lower = total_ - limit_ * (blocks_ - cut) - slack, upper = limit_ * cut + slack;
    const auto first = std::lower_bound(most_.begin(), most_.begin() + length_ + 1, lower);
    const auto last = std::upper_bound(least_.begin(), least_.begin() + length_ + 1, upper);
    return {static_cast<uint32_t>(first - most_.begin()), static_cast<uint32_t>(last - least_.begin()) - 1};
  }

  /// One more cut, in a class first … last, at most a block's work after the one before.
  std::vector<double> extend(const std::vector<double>& best, uint32_t low, uint32_t first, uint32_t last) const {
    std::vector<double> next(last - first + 1, kInfinity);
    std::vector<uint32_t> queue;  // classes of the cut before, their costs ascending from `head` on
    size_t head = 0;
    uint32_t entering = low;
    for (uint32_t c = first; c <= last; ++c) {
      for (; entering <= c && entering - low < best.size(); ++entering) {
        while (queue.size() > head && best[queue.back() - low] >= best[entering - low]) queue.pop_back();
        queue.push_back(entering);
      }
      while (head < queue.size() && most_[queue[head]] + limit_ + kRounding * total_ < least_[c]) ++head;
      if (head < queue.size()) next[c - first] = best[queue[head] - low] + std::max(0.0, price_[c]);
    }
    return next;
  }

  const LevelGraph& graph_;
  uint32_t blocks_, length_ = 0;
  double limit_, total_;
  std::vector<uint32_t> first_, last_;        // per node
  std::vector<double> least_, most_, price_;  // per class 0 … length_
};

}  // namespace

double crossing_bound(const LevelGraph& graph, uint32_t blocks, double work_limit) {
  if (graph.nets() == 0 || blocks < 2) return 0;
  uint32_t sources = 0;
  for (uint32_t v = 0; v < graph.nodes(); ++v) sources += graph.inputs.row(v).empty();
  const double receiving = blocks > sources ? blocks - sources : 0;
  const double by_sources = receiving * *std::min_element(graph.cost.begin(), graph.cost.end());
  const double by_classes = Classes(graph, blocks, work_limit).cheapest() * (1 - kRounding);
  return std::max(by_sources, std::isfinite(by_classes) ? by_classes : 0);
}

}  // namespace rannc::partition
