/// What a stage's tasks hold and need, followed task by task.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "partition/model/tape.h"

namespace rannc::partition {

/// Bytes of one micro-batch's share on one replica. A value that shares memory with another counts once; parameters,
/// buffers and gradients of parameters that are summed count elsewhere.
struct StageMemory {
  double inputs = 0;    ///< samples and received values: all that stays where the forward pass is run again
  double saved = 0;     ///< from forward to backward: these, what the tape keeps, and what is sent to later stages
  double pending = 0;   ///< of that, with gradients of results, from the input gradient to the weight gradient
  double passing = 0;   ///< at most, while a forward pass keeps nothing, beside its received values
  double forward = 0;   ///< at most, while a forward pass keeps all, beside its received values
  double backward = 0;  ///< at most, while a backward pass runs, beyond what was there before it
  /// The same of the first one of a step, which makes the sums of parameters' gradients that later ones add to.
  double first_backward = 0;
};

/// Follows stages of one graph. Not for several threads at once.
class StageFollower {
 public:
  /// Both outlive the follower.
  StageFollower(const ir::Graph& graph, const Tape& tape);

  /// Of `tasks` (ascending) for `samples`. `sent`: results that later stages read.
  StageMemory follow(const std::vector<TaskId>& tasks, const std::vector<ValueId>& sent, double samples);

 private:
  class Pass;
  const ir::Graph& graph_;
  const Tape& tape_;
  std::vector<ValueId> base_;       // by value, within the stage
  std::vector<double> held_;        // by base
  std::vector<uint32_t> last_use_;  // by base: position of the task
  std::vector<uint32_t> keepers_;   // by base: tasks that keep it
  // What kernels allocate for themselves, by samples and kind of the tape, once it was asked for.
  std::map<uint64_t, std::vector<std::optional<ir::KernelScratch>>> scratch_;
};

}  // namespace rannc::partition
