/// Maintains a partition of one level under single-node moves that keep block ids ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

/// Cost of the values between blocks, once per receiving block. `block_of` are ranks < blocks. O(pins + blocks).
double crossing_cost(const LevelGraph& graph, const std::vector<uint32_t>& block_of, uint32_t blocks);

/// Blocks to which a node may move: [low, high], which contains its own.
struct RankWindow {
  uint32_t low = 0;
  uint32_t high = 0;
};

/// The two moves of a node that the refinement considers.
struct EdgeMoves {
  RankWindow window;
  double low_gain = 0;   ///< decrease of the crossing cost by a move to `window.low`
  double high_gain = 0;  ///< by a move to `window.high`
};

/// Block of every node, loads of the blocks, and gains of moves.
///
/// A move of v to t is legal iff max block(pred v) <= t <= min block(succ v). Every edge then still goes from a rank to
/// the same or a higher one, so the quotient stays acyclic without a search. Every net stores its producer's block and
/// its readers' lowest block, so a window costs O(degree). A gain scans the other readers of a node's inputs, or uses a
/// table of readers per block if they are many.
class BlockState {
 public:
  /// `block_of` are ranks < blocks on `graph`, which must outlive the state.
  BlockState(const LevelGraph& graph, std::vector<uint32_t> block_of, uint32_t blocks);

  uint32_t blocks() const { return blocks_; }
  uint32_t block(uint32_t node) const { return block_of_[node]; }
  const std::vector<uint32_t>& block_of() const { return block_of_; }
  double work(uint32_t block) const { return work_[block]; }
  uint64_t memory(uint32_t block) const { return memory_[block]; }
  uint32_t size(uint32_t block) const { return size_[block]; }

  RankWindow window(uint32_t node) const;
  /// Decrease of the crossing cost (each value once per receiving block) if `node` moves to `target`.
  double gain(uint32_t node, uint32_t target) const;
  /// Returns `window` and `gain` at both of its ends, in one pass over the pins.
  EdgeMoves edge_moves(uint32_t node) const;
  /// Moves a node. The caller must check the window.
  void move(uint32_t node, uint32_t target);
  /// Block of the producer of `net`.
  uint32_t home(uint32_t net) const { return home_[net]; }
  /// Lowest block of a reader of `net`.
  uint32_t first_reader(uint32_t net) const { return first_[net]; }
  double crossing_cost() const { return partition::crossing_cost(graph_, block_of_, blocks_); }

  std::vector<uint32_t> take() && { return std::move(block_of_); }

 private:
  bool large(uint32_t net) const { return table_[net] != kNoTable; }
  /// Readers of a net in the blocks that matter to a move, without the moving node.
  struct Readers {
    uint32_t source = 0, low = 0, high = 0;
  };
  Readers other_readers(uint32_t net, uint32_t node, RankWindow window) const;
  uint32_t lowest_reader(uint32_t net) const;
  uint32_t readers_in(uint32_t net, uint32_t block, uint32_t except) const;

  static constexpr uint32_t kNoTable = UINT32_MAX;
  const LevelGraph& graph_;
  uint32_t blocks_;
  std::vector<uint32_t> block_of_;
  std::vector<double> work_;
  std::vector<uint64_t> memory_;
  std::vector<uint32_t> size_;
  std::vector<uint32_t> home_;    ///< per net: block of its producer
  std::vector<uint32_t> first_;   ///< per net: lowest block of its readers
  std::vector<uint32_t> table_;   ///< per net: row of `counts_`, or kNoTable
  std::vector<uint32_t> counts_;  ///< readers per block of the large nets
};

}  // namespace rannc::partition
