// Maintains block loads and reader counts under single-node moves.
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
      home_(graph.nets()),
      first_(graph.nets(), blocks),
      table_(graph.nets(), kNoTable) {
  for (uint32_t v = 0; v < graph_.nodes(); ++v) {
    work_[block_of_[v]] += graph_.work[v];
    memory_[block_of_[v]] += graph_.memory[v];
    ++size_[block_of_[v]];
  }
  // A table is used for nets with more readers than a scan should visit. 4 * readers >= blocks limits its size to 16
  // bytes per pin.
  constexpr size_t kScan = 8;
  uint32_t tables = 0;
  for (uint32_t e = 0; e < graph_.nets(); ++e) {
    const auto readers = graph_.readers(e);
    home_[e] = block_of_[graph_.producer(e)];
    for (uint32_t reader : readers) first_[e] = std::min(first_[e], block_of_[reader]);
    if (readers.size() > kScan && readers.size() * 4 >= blocks_) table_[e] = tables++;
  }
  counts_.assign(static_cast<size_t>(tables) * blocks_, 0);
  for (uint32_t e = 0; e < graph_.nets(); ++e) {
    if (!large(e)) continue;
    for (uint32_t reader : graph_.readers(e)) ++counts_[static_cast<size_t>(table_[e]) * blocks_ + block_of_[reader]];
  }
}

RankWindow BlockState::window(uint32_t node) const {
  RankWindow window{0, blocks_ - 1};
  for (uint32_t e : graph_.inputs.row(node)) window.low = std::max(window.low, home_[e]);
  for (uint32_t e : graph_.outputs(node)) window.high = std::min(window.high, first_[e]);
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
  for (uint32_t e : graph_.outputs(node)) {
    if (readers_in(e, target, UINT32_MAX) > 0) gain += graph_.cost[e];
    if (readers_in(e, source, UINT32_MAX) > 0) gain -= graph_.cost[e];
  }
  return gain;
}

BlockState::Readers BlockState::other_readers(uint32_t net, uint32_t node, RankWindow window) const {
  const uint32_t source = block_of_[node];
  const auto readers = graph_.readers(net);
  if (readers.size() == 1) return {};
  if (large(net)) {
    const uint32_t* row = &counts_[static_cast<size_t>(table_[net]) * blocks_];
    return {row[source] - 1, row[window.low] - (source == window.low), row[window.high] - (source == window.high)};
  }
  Readers found;
  for (uint32_t reader : readers) {
    const uint32_t block = block_of_[reader];
    found.source += block == source;
    found.low += block == window.low;
    found.high += block == window.high;
  }
  return {found.source - 1, found.low - (source == window.low), found.high - (source == window.high)};
}

EdgeMoves BlockState::edge_moves(uint32_t node) const {
  EdgeMoves moves{window(node)};
  const uint32_t source = block_of_[node];
  const RankWindow& window = moves.window;
  if (window.low == window.high) return moves;
  for (uint32_t e : graph_.inputs.row(node)) {
    const Readers others = other_readers(e, node, window);
    const double saved = home_[e] != source && others.source == 0 ? graph_.cost[e] : 0;
    moves.low_gain += saved - (home_[e] != window.low && others.low == 0 ? graph_.cost[e] : 0);
    moves.high_gain += saved - (others.high == 0 ? graph_.cost[e] : 0);
  }
  // No reader is below the source, and none is in it where the window goes beyond.
  for (uint32_t e : graph_.outputs(node)) {
    if (first_[e] == source) moves.low_gain -= graph_.cost[e];
    if (first_[e] == window.high) moves.high_gain += graph_.cost[e];
  }
  if (window.low == source) moves.low_gain = 0;
  if (window.high == source) moves.high_gain = 0;
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
  for (uint32_t e : graph_.outputs(node)) home_[e] = target;
  for (uint32_t e : graph_.inputs.row(node)) {
    if (large(e)) {
      --counts_[static_cast<size_t>(table_[e]) * blocks_ + source];
      ++counts_[static_cast<size_t>(table_[e]) * blocks_ + target];
    }
    if (target < first_[e]) first_[e] = target;
    if (first_[e] == source) first_[e] = lowest_reader(e);
  }
}

uint32_t BlockState::lowest_reader(uint32_t net) const {
  uint32_t lowest = blocks_;
  if (large(net)) {
    const uint32_t* row = &counts_[static_cast<size_t>(table_[net]) * blocks_];
    for (lowest = home_[net]; row[lowest] == 0;) ++lowest;
    return lowest;
  }
  for (uint32_t reader : graph_.readers(net)) lowest = std::min(lowest, block_of_[reader]);
  return lowest;
}

double crossing_cost(const LevelGraph& graph, const std::vector<uint32_t>& block_of, uint32_t blocks) {
  double total = 0;
  std::vector<uint32_t> last(blocks, UINT32_MAX);
  for (uint32_t e = 0; e < graph.nets(); ++e) {
    const uint32_t home = block_of[graph.producer(e)];
    const auto readers = graph.readers(e);
    if (readers.size() == 1) {
      if (block_of[readers[0]] != home) total += graph.cost[e];
      continue;
    }
    last[home] = e;
    for (uint32_t reader : readers) {
      if (last[block_of[reader]] == e) continue;
      last[block_of[reader]] = e;
      total += graph.cost[e];
    }
  }
  return total;
}

}  // namespace rannc::partition
