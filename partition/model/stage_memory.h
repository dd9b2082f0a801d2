/// Computes the memory of a stage by following its tasks one by one.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "partition/model/tape.h"

namespace rannc::partition {

/// Bytes of one micro-batch's share on one replica. A value that shares memory with another counts once. Parameters,
/// buffers and summed gradients of parameters are counted elsewhere.
struct StageMemory {
  double inputs = 0;    ///< samples and received values: all that is kept under recompute
  double saved = 0;     ///< kept from forward to backward: inputs, what the tape keeps, and values sent to later stages
  double pending = 0;   ///< part of `saved` plus gradients of results, kept from input to weight gradient
  double passing = 0;   ///< peak of a forward pass that keeps nothing, beyond its received values
  double forward = 0;   ///< peak of a forward pass that keeps everything, beyond its received values
  double backward = 0;  ///< peak of a backward pass, beyond what was held before it
  /// The same for the first backward pass of a step, which creates the gradient sums that later passes add to.
  double first_backward = 0;
};

/// Computes the memory of stages of one graph. Not thread-safe.
class StageFollower {
 public:
  /// Both arguments must outlive the follower.
  StageFollower(const ir::Graph& graph, const Tape& tape);

  /// Returns the memory for `samples` of a stage with `tasks` (ascending). `sent`: results that later stages read.
  StageMemory follow(const std::vector<TaskId>& tasks, const std::vector<ValueId>& sent, double samples);

 private:
  class Pass;
  const ir::Graph& graph_;
  const Tape& tape_;
  std::vector<ValueId> base_;       // by value, within the stage
  std::vector<double> held_;        // by base
  std::vector<uint32_t> last_use_;  // by base: position of the task
  std::vector<uint32_t> keepers_;   // by base: tasks that keep it
  // Scratch memory of kernels, by samples and scratch kind of the tape; filled on first use.
  std::map<uint64_t, std::vector<std::optional<ir::KernelScratch>>> scratch_;
};

}  // namespace rannc::partition
