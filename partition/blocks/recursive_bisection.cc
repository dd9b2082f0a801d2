// Implements recursive bisection under the rank rule.
//
// The structure is that of Herrmann et al. (SISC 2019). The slack of each bisection is chosen so that the final blocks
// meet the limit (Karypis and Kumar; Schlag et al.).
#include "partition/blocks/recursive_bisection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "partition/blocks/interval_cut.h"
#include "partition/blocks/orders.h"
#include "partition/blocks/refine.h"

namespace rannc::partition {
namespace {

constexpr OrderKind kOrders[] = {OrderKind::kGiven, OrderKind::kDepthFirstBack, OrderKind::kBreadthFirst,
                                 OrderKind::kLeastLive};

constexpr size_t kRefined = 2;  // of the orders, the cheapest

/// Returns the nodes in `members` (ascending) with the values among them.
LevelGraph induced(const LevelGraph& graph, const std::vector<uint32_t>& members, std::vector<uint32_t>& local) {
  LevelGraph part;
  for (uint32_t i = 0; i < members.size(); ++i) {
    local[members[i]] = i;
    part.work.push_back(graph.work[members[i]]);
    part.memory.push_back(graph.memory[members[i]]);
  }
  part.pins.offsets.push_back(0);
  for (uint32_t v : members) {
    for (uint32_t e : graph.outputs(v)) {
      part.pins.items.push_back(local[v]);
      for (uint32_t reader : graph.readers(e)) {
        if (local[reader] != UINT32_MAX) part.pins.items.push_back(local[reader]);
      }
      if (part.pins.items.size() - part.pins.offsets.back() < 2) {
        part.pins.items.resize(part.pins.offsets.back());
        continue;
      }
      part.pins.offsets.push_back(static_cast<uint32_t>(part.pins.items.size()));
      part.cost.push_back(graph.cost[e]);
    }
  }
  for (uint32_t v : members) local[v] = UINT32_MAX;
  index_nodes(part);
  return part;
}

/// One cut of one order.
struct Half {
  std::vector<uint32_t> block_of;  // 0 or 1 per node
  double price = 0;                // cost of the values that cross; huge if a half is too heavy
};

class Bisection {
 public:
  Bisection(const LevelGraph& graph, double limit) : graph_(graph), limit_(limit), local_(graph.nodes(), UINT32_MAX) {
    block_of_.assign(graph.nodes(), 0);
  }

  bool split(const std::vector<uint32_t>& members, uint32_t first_block, uint32_t blocks) {
    if (members.size() < blocks) return false;
    if (blocks == 1) {
      for (uint32_t v : members) block_of_[v] = first_block;
      return true;
    }
    const LevelGraph part = induced(graph_, members, local_);
    const uint32_t low_blocks = blocks / 2;
    const std::vector<uint32_t> half = halve(part, low_blocks, blocks);
    if (half.empty()) return false;
    std::vector<uint32_t> low, high;
    for (uint32_t i = 0; i < members.size(); ++i) (half[i] == 0 ? low : high).push_back(members[i]);
    return split(low, first_block, low_blocks) && split(high, first_block + low_blocks, blocks - low_blocks);
  }

  std::vector<uint32_t> take() && { return std::move(block_of_); }

 private:
  std::vector<uint32_t> halve(const LevelGraph& part, uint32_t low_blocks, uint32_t blocks) const {
    const double total = std::accumulate(part.work.begin(), part.work.end(), 0.0);
    const double heaviest = *std::max_element(part.work.begin(), part.work.end());
    // Distribute the slack over the remaining bisections.
    const double depth = std::ceil(std::log2(static_cast<double>(blocks)));
    const double slack = total > 0 ? std::pow(std::max(1.0, limit_ * blocks / total), 1 / depth) : 1;
    auto share = [&](uint32_t part_blocks) {
      const double mean = total * part_blocks / blocks;
      return std::max(mean * slack, mean + heaviest / 2);
    };
    const RefineLimits limits{share(low_blocks), UINT64_MAX, 2, share(blocks - low_blocks)};
    std::vector<Half> halves;
    for (OrderKind kind : kOrders) {
      halves.push_back(cut_once(part, order_nodes(part, kind), limits, total, low_blocks, blocks));
    }
    std::stable_sort(halves.begin(), halves.end(), [](const Half& a, const Half& b) { return a.price < b.price; });
    halves.resize(kRefined);
    std::vector<uint32_t> best;
    double best_cost = std::numeric_limits<double>::infinity();
    for (Half& half : halves) {
      BlockState state(part, std::move(half.block_of), 2);
      refine(part, state, limits, {});
      const double cost = state.crossing_cost();
      if (cost >= best_cost || state.size(0) < low_blocks || state.size(1) < blocks - low_blocks) continue;
      best_cost = cost;
      best = std::move(state).take();
    }
    return best;
  }

  /// Returns the cheapest place within both limits, or the one nearest the target if there is none.
  static Half cut_once(const LevelGraph& part, const std::vector<uint32_t>& order, const RefineLimits& limits,
                       double total, uint32_t low_blocks, uint32_t blocks) {
    const std::vector<double> live = live_costs(part, order);
    const double target = total * low_blocks / blocks;
    double prefix = 0, best_price = std::numeric_limits<double>::infinity();
    size_t best = low_blocks;
    for (size_t place = 1; place < order.size(); ++place) {
      prefix += part.work[order[place - 1]];
      if (place < low_blocks || order.size() - place < blocks - low_blocks) continue;
      const bool fits = prefix <= limits.work && total - prefix <= limits.last_work;
      const double off = std::abs(prefix - target);
      const double price = fits ? live[place] + 1e-9 * off / (total + 1e-300) : 1e150 * (1 + off / (total + 1e-300));
      if (price >= best_price) continue;
      best_price = price;
      best = place;
    }
    Half half{std::vector<uint32_t>(order.size(), 1), best_price};
    for (size_t i = 0; i < best; ++i) half.block_of[order[i]] = 0;
    return half;
  }

  const LevelGraph& graph_;
  double limit_;
  std::vector<uint32_t> local_, block_of_;
};

}  // namespace

std::vector<uint32_t> bisect_recursively(const LevelGraph& graph, uint32_t blocks, double work_limit) {
  Bisection bisection(graph, work_limit);
  std::vector<uint32_t> all(graph.nodes());
  std::iota(all.begin(), all.end(), 0);
  if (!bisection.split(all, 0, blocks)) return {};
  return std::move(bisection).take();
}

}  // namespace rannc::partition
