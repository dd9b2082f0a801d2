/// The stages that a plan could at best consist of, and whether some of them form a pipeline within limits.
#pragma once

#include <vector>

#include "partition/stages/internal/prices.h"

namespace rannc::partition {

/// The best links of a cluster: no plan has better ones.
class BestLinks {
 public:
  explicit BestLinks(const Cluster& cluster);
  const Link& any() const { return any_; }
  /// For a group of devices: larger groups than a node must cross between nodes.
  const Link& of_group(uint64_t devices) const { return devices <= largest_node_ ? any_ : between_; }

 private:
  Link any_{1, 0}, between_{1, 0};
  uint64_t largest_node_ = 1;
};

/// Blocks [first, end) on so many devices.
struct StageOutline {
  uint32_t first = 0, end = 0, replicas = 1;
  bool operator==(const StageOutline&) const = default;
};

/// For one micro-batch count: every range of blocks on every number of devices, priced by the best kind of device, the
/// best link and one micro-batch in flight.
class StageFloor {
 public:
  StageFloor(const StageProblem& problem, const RangeCosts& ranges, const BestLinks& links, uint64_t micro_batches);

  /// How long a query takes, in steps of a few ns.
  static double steps(const StageProblem& problem);

  /// What must hold for the stages of a pipeline.
  struct Limits {
    double time_ns = 0;       ///< of the objective, see `possible`
    double step_ns = 0;       ///< of a step, whatever the objective; infinity: none
    double memory_bytes = 0;  ///< of each device; infinity: the devices' own
  };
  /// Whether stages exist that meet the limits. O(blocks^2 * devices * replica counts).
  bool possible(const Limits& limits) const { return search(limits, nullptr); }
  /// Such stages, in order, with the least time of one micro-batch through all of them; empty: there are none.
  std::vector<StageOutline> stages(const Limits& limits) const;

 private:
  /// Blocks [first, end) on `units` devices. Times in ns; a mini-batch where nothing else is said.
  struct Entry {
    uint32_t first = 0, end = 0, units = 0;
    double work = 0;                   ///< all micro-batches, forward and backward
    double chain = 0;                  ///< of that, forward and input gradients
    double forward = 0, backward = 0;  ///< of one micro-batch, input gradients alone
    double there = 0, back = 0;        ///< the message from the block before, and its gradient, of one micro-batch
    double port = 0, joined = 0;       ///< all messages in; those from the block before
    double messages = 0;               ///< all messages in and out, both ways
    double tail = 0;                   ///< all-reduce and optimizer
    double bytes = 0;                  ///< least peak
  };
  void add(uint32_t a, uint32_t b, uint64_t least, uint64_t most);
  bool within(const Entry& entry, const Limits& limits) const;
  /// `last`, where given: by (block, units), the entry that ends there.
  bool search(const Limits& limits, std::vector<uint32_t>* last) const;

  const StageProblem& problem_;
  const RangeCosts& ranges_;
  const BestLinks& links_;
  uint64_t micro_batches_;
  uint64_t more_ = 0;  ///< micro-batches with one sample more
  /// Of the smallest and the largest micro-batch; of the smallest with the input gradients as backward time.
  StagePrices small_, large_, inputs_;
  uint32_t unit_ = 1, units_ = 1;  ///< devices per unit, units of the cluster
  double memory_ = 0;              ///< of the largest device
  double rate_ = 0;                ///< of the fastest device memory
  /// By block: bytes of the values that it reads from the block before, and of their gradients; and whether there are
  /// any.
  std::vector<Affine> joining_, returning_;
  std::vector<char> follows_, returns_;
  std::vector<Entry> entries_;  ///< by first block
};

}  // namespace rannc::partition
