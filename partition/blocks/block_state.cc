// Keeps block loads and reader counts under single-node moves.
#include "partition/blocks/block_state.h"

#include <algorithm>

namespace rannc::partition {

BlockState::BlockState(const LevelGraph& graph, std::vector<uint32_t> block_of, uint32_t blocks)
    : graph_(graph),
      blocks_(blocks),
      block_of_(std::move(block_of)),
      work_(blocks, 0),
      memory_(blocks, 0),
      size_(blocks, 0),
      table_(graph.nets(), kNoTable) {
  for (uint32_t v = 0; v < graph_.nodes(); ++v) {
    work_[block_of_[v]] += graph_.work[v];
    memory_[block_of_[v]] += graph_.memory[v];
    ++size_[block_of_[v]];
  }
  // A table pays where a net has more readers than a scan should touch; 4 * readers >= blocks bounds its size by 16
  // bytes per pin.
  constexpr size_t kScan = 8;
  uint32_t tables = 0;
  for (uint32_t e = 0; e < graph_.nets(); ++e) {
    const size_t readers = graph_.readers(e).size();
    if (readers > kScan && readers * 4 >= blocks_) table_[e] = tables++;
  }
  counts_.assign(static_cast<size_t>(tables) * blocks_, 0);
  for (uint32_t e = 0; e < graph_.nets(); ++e) {
    if (!large(e)) continue;
    for (uint32_t reader : graph_.readers(e)) ++counts_[static_cast<size_t>(table_[e]) * blocks_ + block_of_[reader]];
  }
}

RankWindow BlockState::window(uint32_t node) const {
  RankWindow window{0, blocks_ - 1};
  for (uint32_t e : graph_.inputs.row(node)) window.low = std::max(window.low, block_of_[graph_.producer(e)]);
  for (uint32_t e : graph_.outputs.row(node)) {
    if (large(e)) {
      const uint32_t* row = &counts_[static_cast<size_t>(table_[e]) * blocks_];
      uint32_t b = block_of_[node];
      while (b < window.high && row[b] == 0) ++b;
      window.high = std::min(window.high, b);
    } else {
      for (uint32_t reader : graph_.readers(e)) window.high = std::min(window.high, block_of_[reader]);
    }
  }
  return window;
}

uint32_t BlockState::readers_in(uint32_t net, uint32_t block, uint32_t except) const {
  if (large(net)) {
    const uint32_t all = counts_[static_cast<size_t>(table_[net]) * blocks_ + block];
    return all - (except != UINT32_MAX && block_of_[except] == block ? 1 : 0);
  }
  uint32_t count = 0;
  for (uint32_t reader : graph_.readers(net)) count += block_of_[reader] == block && reader != except;
  return count;
}

double BlockState::gain(uint32_t node, uint32_t target) const {
  const uint32_t source = block_of_[node];
  double gain = 0;
  for (uint32_t e : graph_.inputs.row(node)) {
    const uint32_t home = block_of_[graph_.producer(e)];
    if (home != source && readers_in(e, source, node) == 0) gain += graph_.cost[e];
    if (home != target && readers_in(e, target, node) == 0) gain -= graph_.cost[e];
  }
  for (uint32_t e : graph_.outputs.row(node)) {
    if (readers_in(e, target, UINT32_MAX) > 0) gain += graph_.cost[e];
    if (readers_in(e, source, UINT32_MAX) > 0) gain -= graph_.cost[e];
  }
  return gain;
}

BlockState::Readers BlockState::readers_at(uint32_t net, uint32_t source, RankWindow window, uint32_t except) const {
  Readers found;
  if (large(net)) {
    const uint32_t* row = &counts_[static_cast<size_t>(table_[net]) * blocks_];
    const uint32_t own = except != UINT32_MAX ? 1 : 0;
    return {row[source] - own, row[window.low] - (source == window.low ? own : 0),
            row[window.high] - (source == window.high ? own : 0)};
  }
  for (uint32_t reader : graph_.readers(net)) {
    if (reader == except) continue;
    const uint32_t block = block_of_[reader];
    found.source += block == source;
    found.low += block == window.low;
    found.high += block == window.high;
  }
  return found;
}

EdgeMoves BlockState::edge_moves(uint32_t node) const {
  EdgeMoves moves{window(node)};
  const uint32_t source = block_of_[node];
  const RankWindow& window = moves.window;
  if (window.low == window.high) return moves;
  for (uint32_t e : graph_.inputs.row(node)) {
    const Readers others = readers_at(e, source, window, node);
    const uint32_t home = block_of_[graph_.producer(e)];
    const double saved = home != source && others.source == 0 ? graph_.cost[e] : 0;
    moves.low_gain += saved - (home != window.low && others.low == 0 ? graph_.cost[e] : 0);
    moves.high_gain += saved - (home != window.high && others.high == 0 ? graph_.cost[e] : 0);
  }
  for (uint32_t e : graph_.outputs.row(node)) {
    const Readers readers = readers_at(e, source, window, UINT32_MAX);
    const double paid = readers.source > 0 ? graph_.cost[e] : 0;
    moves.low_gain += (readers.low > 0 ? graph_.cost[e] : 0) - paid;
    moves.high_gain += (readers.high > 0 ? graph_.cost[e] : 0) - paid;
  }
  return moves;
}

void BlockState::move(uint32_t node, uint32_t target) {
  const uint32_t source = block_of_[node];
  block_of_[node] = target;
  work_[source] -= graph_.work[node];
  work_[target] += graph_.work[node];
  memory_[source] -= graph_.memory[node];
  memory_[target] += graph_.memory[node];
  --size_[source];
  ++size_[target];
  for (uint32_t e : graph_.inputs.row(node)) {
    if (!large(e)) continue;
    --counts_[static_cast<size_t>(table_[e]) * blocks_ + source];
    ++counts_[static_cast<size_t>(table_[e]) * blocks_ + target];
  }
}

double BlockState::crossing_cost() const {
  double total = 0;
  std::vector<uint32_t> last(blocks_, UINT32_MAX);
  for (uint32_t e = 0; e < graph_.nets(); ++e) {
    last[block_of_[graph_.producer(e)]] = e;
    for (uint32_t reader : graph_.readers(e)) {
      if (last[block_of_[reader]] == e) continue;
      last[block_of_[reader]] = e;
      total += graph_.cost[e];
    }
  }
  return total;
}

}  // namespace rannc::partition
