/// Computes sums over block ranges [a, b) that do not depend on micro-batches, replicas or devices.
#pragma once

#include <vector>

#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// A quantity that is affine in the number of samples.
struct Affine {
  double fixed = 0, per_sample = 0;
  double at(double samples) const { return fixed + per_sample * samples; }
};

/// Built in O(blocks^2 + value readers); every query is O(1).
class RangeCosts {
 public:
  explicit RangeCosts(const StageProblem& problem);

  uint32_t blocks() const { return blocks_; }
  /// Bytes that a stage of the blocks [a, b) receives. Each value counts once, however many of its blocks read it.
  const Affine& received(uint32_t a, uint32_t b) const { return received_[index(a, b)]; }
  /// Part of `received` whose gradients the stage returns.
  const Affine& returned(uint32_t a, uint32_t b) const { return returned_[index(a, b)]; }
  /// Bytes of the distinct values produced in [a, b) and read from block b on.
  const Affine& sent(uint32_t a, uint32_t b) const { return sent_[index(a, b)]; }
  /// Part of `sent` whose gradients are returned.
  const Affine& answered(uint32_t a, uint32_t b) const { return answered_[index(a, b)]; }
  /// Bytes of distinct parameters.
  double parameters(uint32_t a, uint32_t b) const {
    return parameters_[b] - parameters_[a] + (shared_parameters_.empty() ? 0 : shared_parameters_[index(a, b)].fixed);
  }
  /// Bytes of the sums of their gradients, each once: the size of an all-reduce.
  double gradients(uint32_t a, uint32_t b) const {
    return gradients_[b] - gradients_[a] + (shared_gradients_.empty() ? 0 : shared_gradients_[index(a, b)].fixed);
  }
  /// Bytes of those that replicas sum at a time: two buckets, or one beside a gradient that is larger. 0 if gradients
  /// are not known one by one, or are summed to shares.
  double summed_at_once(uint32_t a, uint32_t b) const { return std::min(gradients(a, b), two_buckets_); }
  /// Bytes of their optimizer state.
  double states(uint32_t a, uint32_t b) const {
    return states_[b] - states_[a] + (shared_states_.empty() ? 0 : shared_states_[index(a, b)].fixed);
  }
  /// Bytes of parameters, gradients, optimizer state and buffers.
  double resident(uint32_t a, uint32_t b) const {
    return resident_[b] - resident_[a] + (shared_resident_.empty() ? 0 : shared_resident_[index(a, b)].fixed);
  }
  /// Part of `resident` that the replicas of a stage divide: optimizer state, if it is sharded.
  double divided(uint32_t a, uint32_t b) const { return divides_ ? states(a, b) : 0; }
  /// Stash of the blocks alone.
  double stashed_per_sample(uint32_t a, uint32_t b) const { return stashed_[b] - stashed_[a]; }
  /// Bytes that a micro-batch keeps from its forward to its backward pass: the stash of the blocks, received values,
  /// and sent values that no stash includes.
  Affine saved(uint32_t a, uint32_t b) const {
    Affine bytes = crossing_[index(a, b)];
    bytes.per_sample += stashed_per_sample(a, b);
    return bytes;
  }
  /// Part of `saved` that is kept under recompute: samples and received values.
  const Affine& kept(uint32_t a, uint32_t b) const { return kept_[index(a, b)]; }
  /// Bytes kept while only its weight gradient is still to be computed.
  Affine pending(uint32_t a, uint32_t b) const {
    return pending_.empty() ? saved(a, b) : Affine{0, pending_[b] - pending_[a]};
  }
  /// What passes need beside the stash of all blocks: the temporary of a block, less the stash of the blocks behind it,
  /// which are not there yet or have gone; of the block for which this is most. Parts that grow with samples and
  /// constant parts may be of two blocks.
  Affine temporary(uint32_t a, uint32_t b) const { return temporary_.empty() ? Affine{} : temporary_[index(a, b)]; }
  /// The same of an I without its W, behind which blocks leave what is pending.
  Affine parted_temporary(uint32_t a, uint32_t b) const {
    return parted_temporary_.empty() ? temporary(a, b) : parted_temporary_[index(a, b)];
  }
  bool cut_allowed(uint32_t cut) const { return cut_allowed_[cut]; }
  bool has_pins() const { return !pins_.empty(); }
  /// Whether the blocks [a, b) may form the stage that is `from_end` stages from the end (1 = the last).
  bool stage_allowed(uint32_t a, uint32_t b, uint32_t from_end) const {
    if (pins_.empty()) return true;
    const PinnedStages& pins = pins_[a];
    return pins.next_block >= b || (stages_ - from_end == pins.stage && pins.next_other >= b);
  }

 private:
  size_t index(uint32_t a, uint32_t b) const { return static_cast<size_t>(a) * (blocks_ + 1) + b; }

  void add_shared(const StageProblem& problem);
  void add_temporaries(const StageProblem& problem);

  uint32_t blocks_;
  bool divides_;
  std::vector<Affine> received_, returned_, sent_, answered_, kept_;
  std::vector<Affine> crossing_;  ///< kept parts of received values and samples, and of sent values outside the stash
  std::vector<Affine> shared_parameters_, shared_gradients_, shared_states_;  ///< empty: nothing is shared
  std::vector<Affine> shared_resident_, temporary_;                           ///< empty: there are none
  std::vector<Affine> parted_temporary_;                                      ///< empty: as `temporary_`
  std::vector<double> parameters_, gradients_, states_, resident_, stashed_, pending_;
  double two_buckets_ = 0;  ///< of all blocks, bytes
  std::vector<char> cut_allowed_;
  /// The first pinned block from some block on, and the next block pinned to another stage.
  struct PinnedStages {
    uint32_t next_block = UINT32_MAX, stage = 0, next_other = UINT32_MAX;
  };
  std::vector<PinnedStages> pins_;  ///< by block; empty: nothing is pinned
  uint32_t stages_ = 0;
};

}  // namespace rannc::partition
