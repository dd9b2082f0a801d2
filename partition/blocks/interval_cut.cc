// Cuts one order into intervals by dynamic programming with a monotone queue.
#include "partition/blocks/interval_cut.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace rannc::partition {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Places that can end a given number of blocks.
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

/// First place from which [place, end) fits; ends ascend, so the scan continues where the last one stopped.
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
  const uint32_t n = static_cast<uint32_t>(order.size()), k = limits.blocks;
  if (k == 0 || k > n) return std::nullopt;
  const Prefixes sums = prefixes(graph, order);
  const std::vector<double> live = live_costs(graph, order);
  const double slack = limits.work * 1e-12;

  std::vector<Range> range(k + 1);
  for (uint32_t s = 0; s <= k; ++s) {
    const double least = sums.work[n] - limits.work * (k - s) - slack * k, most = limits.work * s + slack * k;
    auto lower = std::lower_bound(sums.work.begin(), sums.work.end(), least);
    auto upper = std::upper_bound(sums.work.begin(), sums.work.end(), most);
    range[s].first = std::max<uint32_t>(s, static_cast<uint32_t>(lower - sums.work.begin()));
    range[s].last = std::min<uint32_t>(n - (k - s), static_cast<uint32_t>(upper - sums.work.begin()) - 1);
  }
  range[0] = {0, 0};
  range[k] = {n, n};

  std::vector<std::vector<uint32_t>> came_from(k + 1);
  std::vector<double> best{0}, next;
  std::vector<uint32_t> queue;  // places of the previous range with ascending cost; `head` is its front
  for (uint32_t s = 1; s <= k; ++s) {
    if (range[s].first > range[s].last) return std::nullopt;
    const uint32_t width = range[s].last - range[s].first + 1;
    next.assign(width, kInfinity);
    came_from[s].assign(width, UINT32_MAX);
    queue.clear();
    size_t head = 0;
    uint32_t entering = range[s - 1].first;
    Reach reach(sums, limits);
    auto price = [&](uint32_t place) { return best[place - range[s - 1].first] + (place == 0 ? 0 : live[place]); };
    bool any = false;
    for (uint32_t end = range[s].first; end <= range[s].last; ++end) {
      for (; entering <= range[s - 1].last && entering < end; ++entering) {
        if (best[entering - range[s - 1].first] == kInfinity) continue;
        while (queue.size() > head && price(queue.back()) > price(entering)) queue.pop_back();
        queue.push_back(entering);
      }
      const uint32_t first = reach.first_for(end);
      while (head < queue.size() && queue[head] < first) ++head;
      if (head == queue.size()) continue;
      next[end - range[s].first] = price(queue[head]);
      came_from[s][end - range[s].first] = queue[head];
      any = true;
    }
    if (!any) return std::nullopt;
    best.swap(next);
  }
  if (best[0] == kInfinity) return std::nullopt;
  std::vector<uint32_t> block_of(n);
  uint32_t end = n;
  for (uint32_t s = k; s > 0; --s) {
    const uint32_t begin = came_from[s][end - range[s].first];
    for (uint32_t i = begin; i < end; ++i) block_of[order[i]] = s - 1;
    end = begin;
  }
  return block_of;
}

}  // namespace rannc::partition
