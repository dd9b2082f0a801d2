/// The choices between keeping and recomputing in one stage.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/cut_network.h"
#include "passes/training/selective_recompute.h"

namespace rannc::passes {

/// The choices of a stage. A root is a value that stands for its memory and all views of it.
struct RecomputeNetwork {
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Memory that the backward pass or a repeated task may read.
  struct Memory {
    uint32_t maker = kNone;  ///< index in `tasks`; none: an input or a random input
    int64_t bytes = 0;
    int64_t random_ns = RecomputeCosts::kNever;  ///< of a random input
    bool is_tape = false;                        ///< never kept
  };
  struct Task {
    int64_t ns = 0;
    std::vector<ValueId> reads;         ///< values of the micro-batch
    std::vector<uint32_t> memory = {};  ///< of each of them, index in `RecomputeNetwork::memory`
  };

  std::vector<Memory> memory;
  std::vector<Task> tasks;
  std::vector<ValueId> saved;
  std::vector<uint32_t> saved_memory;
  std::vector<uint32_t> memory_of;  ///< by value: index in `memory`; none: never read, or fixed
  int64_t total_bytes = 0, total_ns = 0;
  ir::CutNetwork::Solver solver = ir::CutNetwork::Solver::kBoost;

  /// The price, halved until all sums fit into 62 bits. A number above 0 stays above 0.
  RecomputePrice scaled(RecomputePrice price) const;
  /// The cheapest choice at a scaled price. One maximum flow.
  KeptChoice cheapest(RecomputePrice price) const;

 private:
  static constexpr uint32_t kSource = 0, kSink = 1;
  uint32_t needed(uint32_t memory_index) const { return 2 + memory_index; }
  uint32_t runs(uint32_t task_index) const { return 2 + static_cast<uint32_t>(memory.size()) + task_index; }
  bool is_repeated_random(const Memory& of, RecomputePrice price) const {
    return of.random_ns != RecomputeCosts::kNever && price.per_ns * of.random_ns <= price.per_byte * of.bytes;
  }
  std::vector<bool> cut(RecomputePrice price) const;
  KeptChoice choice(const std::vector<bool>& on_source_side, RecomputePrice price) const;
};

/// All memory and tasks that the saved values of a joint graph depend on. Linear.
RecomputeNetwork recompute_network(const ir::Joint& joint, const RecomputeCosts& costs);

}  // namespace rannc::passes
