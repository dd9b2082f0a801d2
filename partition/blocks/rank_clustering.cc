// Clusters nodes under the rank rule.
#include "partition/blocks/rank_clustering.h"

#include <algorithm>

namespace rannc::partition {
namespace {

class Clustering {
 public:
  Clustering(const LevelGraph& graph, std::span<const uint32_t> order, std::span<const uint32_t> block_of,
             const ClusterLimits& limits)
      : graph_(graph),
        limits_(limits),
        block_of_(block_of),
        order_(order),
        rank_(graph.nodes()),
        work_(graph.nodes()),
        memory_(graph.nodes()),
        size_(graph.nodes(), 1) {
    for (uint32_t i = 0; i < order.size(); ++i) {
      rank_[order[i]] = i;
      work_[i] = graph.work[order[i]];
      memory_[i] = graph.memory[order[i]];
    }
  }

  /// Moves `node` into a neighbouring cluster if one is legal and fits.
  bool join(uint32_t node) {
    const uint32_t own = rank_[node];
    if (size_[own] > 1) return false;
    uint32_t low = 0, high = graph_.nodes();
    for (uint32_t e : graph_.inputs.row(node)) low = std::max(low, rank_[graph_.producer(e)]);
    for (uint32_t e : graph_.outputs(node)) {
      for (uint32_t reader : graph_.readers(e)) high = std::min(high, rank_[reader]);
    }
    const bool down = !graph_.inputs.row(node).empty() && fits(node, low);
    const bool up = !graph_.outputs(node).empty() && fits(node, high);
    if (!down && !up) return false;
    const bool goes_down =
        down && (!up || shared(node, low) / (work_[low] + tiny_) >= shared(node, high) / (work_[high] + tiny_));
    const uint32_t target = goes_down ? low : high;
    rank_[node] = target;
    size_[own] = 0;
    ++size_[target];
    work_[target] += graph_.work[node];
    memory_[target] += graph_.memory[node];
    return true;
  }

  void set_tiny(double tiny) { tiny_ = tiny; }
  const std::vector<uint32_t>& rank() const { return rank_; }
  std::vector<uint32_t> take() && { return std::move(rank_); }

 private:
  bool fits(uint32_t node, uint32_t rank) const {
    // A cluster keeps the rank of its first node, so that node determines its block.
    if (!block_of_.empty() && block_of_[order_[rank]] != block_of_[node]) return false;
    return work_[rank] + graph_.work[node] <= limits_.work && graph_.memory[node] <= limits_.memory &&
           memory_[rank] <= limits_.memory - graph_.memory[node];
  }

  /// Cost of values between `node` and the cluster, each divided by its number of readers.
  double shared(uint32_t node, uint32_t rank) const {
    double sum = 0;
    for (uint32_t e : graph_.inputs.row(node)) {
      if (rank_[graph_.producer(e)] == rank) sum += graph_.cost[e] / graph_.readers(e).size();
    }
    for (uint32_t e : graph_.outputs(node)) {
      const auto readers = graph_.readers(e);
      uint32_t inside = 0;
      for (uint32_t reader : readers) inside += rank_[reader] == rank;
      sum += graph_.cost[e] * inside / readers.size();
    }
    return sum;
  }

  const LevelGraph& graph_;
  const ClusterLimits& limits_;
  std::span<const uint32_t> block_of_, order_;
  std::vector<uint32_t> rank_;    // per node
  std::vector<double> work_;      // per rank
  std::vector<uint64_t> memory_;  // per rank
  std::vector<uint32_t> size_;    // per rank
  double tiny_ = 1e-300;
};

}  // namespace

std::vector<uint32_t> cluster_by_rank(const LevelGraph& graph, std::span<const uint32_t> order,
                                      std::span<const uint32_t> block_of, const ClusterLimits& limits,
                                      uint32_t least_groups, uint32_t& groups,
                                      const std::function<void(const std::vector<uint32_t>&)>& moved) {
  Clustering clustering(graph, order, block_of, limits);
  double total = 0;
  for (double work : graph.work) total += work;
  clustering.set_tiny(total / (graph.nodes() + 1.0) + 1e-300);
  groups = graph.nodes();
  for (uint32_t node : order) {
    if (groups <= least_groups) break;
    if (!clustering.join(node)) continue;
    --groups;
    if (moved) moved(clustering.rank());
  }
  std::vector<uint32_t> rank = std::move(clustering).take();
  groups = compress_ranks(rank, graph.nodes());
  return rank;
}

}  // namespace rannc::partition
