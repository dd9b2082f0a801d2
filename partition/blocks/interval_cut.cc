// Cuts one order into intervals by dynamic programming with a monotone queue.
#include "partition/blocks/interval_cut.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace rannc::partition {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Places at which a given number of blocks can end.
struct Range {
  uint32_t first = 0, last = 0;  // inclusive; empty when first > last
};

struct Prefixes {
  std::vector<double> work;
  std::vector<uint64_t> memory;
};

Prefixes prefixes(const LevelGraph& graph, std::span<const uint32_t> order) {
  Prefixes sums;
  sums.work.assign(order.size() + 1, 0);
  sums.memory.assign(order.size() + 1, 0);
  for (size_t i = 0; i < order.size(); ++i) {
    sums.work[i + 1] = sums.work[i] + graph.work[order[i]];
    sums.memory[i + 1] = sums.memory[i] + graph.memory[order[i]];
  }
  return sums;
}

/// Returns the first place from which [place, end) fits. Ends ascend, so the scan continues where the last one stopped.
class Reach {
 public:
  Reach(const Prefixes& sums, const IntervalLimits& limits) : sums_(sums), limits_(limits) {}
  uint32_t first_for(uint32_t end) {
    while (place_ < end && (sums_.work[end] - sums_.work[place_] > limits_.work ||
                            sums_.memory[end] - sums_.memory[place_] > limits_.memory)) {
      ++place_;
    }
    return place_;
  }

 private:
  const Prefixes& sums_;
  const IntervalLimits& limits_;
  uint32_t place_ = 0;
};

/// The dynamic program of `cut_order`: best[s][end] = least cost of s blocks that end at `end`, over the places from
/// which the rest can still fit.
class IntervalSearch {
 public:
  IntervalSearch(const LevelGraph& graph, std::span<const uint32_t> order, const IntervalLimits& limits)
      : order_(order),
        limits_(limits),
        sums_(prefixes(graph, order)),
        live_(live_costs(graph, order)),
        range_(limits.blocks + 1),
        came_from_(limits.blocks + 1) {}

  std::optional<std::vector<uint32_t>> run() {
    set_ranges();
    std::vector<double> best{0};
    for (uint32_t s = 1; s <= limits_.blocks; ++s) {
      if (range_[s].first > range_[s].last || !extend(s, best)) return std::nullopt;
    }
    return blocks();
  }

 private:
  /// Places at which s blocks can end: the contents of these blocks and the rest must each fit.
  void set_ranges() {
    const uint32_t n = static_cast<uint32_t>(order_.size()), k = limits_.blocks;
    const double slack = limits_.work * 1e-12 * k;
    for (uint32_t s = 1; s < k; ++s) {
      const double least = sums_.work[n] - limits_.work * (k - s) - slack, most = limits_.work * s + slack;
      auto lower = std::lower_bound(sums_.work.begin(), sums_.work.end(), least);
      auto upper = std::upper_bound(sums_.work.begin(), sums_.work.end(), most);
      range_[s].first = std::max<uint32_t>(s, static_cast<uint32_t>(lower - sums_.work.begin()));
      range_[s].last = std::min<uint32_t>(n - (k - s), static_cast<uint32_t>(upper - sums_.work.begin()) - 1);
    }
    range_[0] = {0, 0};
    range_[k] = {n, n};
  }

  /// Advances `best` from stage s - 1 to stage s. Returns false if no place is reachable.
  bool extend(uint32_t s, std::vector<double>& best) {
    const Range from = range_[s - 1], to = range_[s];
    std::vector<double> next(to.last - to.first + 1, kInfinity);
    came_from_[s].assign(next.size(), UINT32_MAX);
    std::vector<uint32_t> queue;  // places of `from` with ascending cost from `head` on
    size_t head = 0;
    uint32_t entering = from.first;
    Reach reach(sums_, limits_);
    auto price = [&](uint32_t place) { return best[place - from.first] + (place == 0 ? 0 : live_[place]); };
    bool any = false;
    for (uint32_t end = to.first; end <= to.last; ++end) {
      for (; entering <= from.last && entering < end; ++entering) {
        if (best[entering - from.first] == kInfinity) continue;
        while (queue.size() > head && price(queue.back()) > price(entering)) queue.pop_back();
        queue.push_back(entering);
      }
      const uint32_t first = reach.first_for(end);
      while (head < queue.size() && queue[head] < first) ++head;
      if (head == queue.size()) continue;
      next[end - to.first] = price(queue[head]);
      came_from_[s][end - to.first] = queue[head];
      any = true;
    }
    best.swap(next);
    return any;
  }

  std::vector<uint32_t> blocks() const {
    std::vector<uint32_t> block_of(order_.size());
    uint32_t end = static_cast<uint32_t>(order_.size());
    for (uint32_t s = limits_.blocks; s > 0; --s) {
      const uint32_t begin = came_from_[s][end - range_[s].first];
      for (uint32_t i = begin; i < end; ++i) block_of[order_[i]] = s - 1;
      end = begin;
    }
    return block_of;
  }

  std::span<const uint32_t> order_;
  const IntervalLimits& limits_;
  Prefixes sums_;
  std::vector<double> live_;
  std::vector<Range> range_;
  std::vector<std::vector<uint32_t>> came_from_;
};

}  // namespace

double work_limit(const LevelGraph& graph, uint32_t blocks, double imbalance) {
  const double total = std::accumulate(graph.work.begin(), graph.work.end(), 0.0);
  const double heaviest = graph.work.empty() ? 0 : *std::max_element(graph.work.begin(), graph.work.end());
  const double mean = total / blocks;
  return std::max((1 + imbalance) * mean, mean + heaviest) * (1 + 1e-12);
}

std::vector<double> live_costs(const LevelGraph& graph, std::span<const uint32_t> order) {
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<double> live(order.size() + 1, 0);
  for (uint32_t e = 0; e < graph.nets(); ++e) {
    uint32_t last = 0;
    for (uint32_t reader : graph.readers(e)) last = std::max(last, place[reader]);
    live[place[graph.producer(e)] + 1] += graph.cost[e];
    live[last + 1] -= graph.cost[e];
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

std::optional<std::vector<uint32_t>> cut_order(const LevelGraph& graph, std::span<const uint32_t> order,
                                               const IntervalLimits& limits) {
  if (limits.blocks == 0 || limits.blocks > order.size()) return std::nullopt;
  return IntervalSearch(graph, order, limits).run();
}

}  // namespace rannc::partition
