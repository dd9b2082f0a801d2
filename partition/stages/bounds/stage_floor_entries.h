/// Prices the stages that a plan could at best have, as far as a search asks for them.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "partition/stages/pricing/prices.h"

namespace rannc::partition {

/// What the search for a bound may still spend. A search that has spent it knows less, never something false.
struct BoundBudget {
  uint64_t steps = UINT64_MAX;  ///< of a few ns
  std::stop_token stop = {};

  /// Spends `amount`; false, and nothing is left, where that is more than there is or a stop is requested.
  bool take(uint64_t amount) {
    if (amount > steps || stop.stop_requested()) steps = 0;
    if (steps == 0) return false;
    steps -= amount;
    return true;
  }
  bool spent() const { return steps == 0; }
};

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

/// Blocks up to `end` on `units` devices at the cluster's best. Times in ns; of a mini-batch where nothing else is
/// said.
struct FloorEntry {
  uint32_t end = 0;
  uint16_t units = 0, replicas = 0;  ///< units counted; index of the replica count
  double slots = 0;                  ///< micro-batches it can hold without recompute; 0: not even one
  double repeated_slots = 0;         ///< likewise with recompute
  double work = 0;                   ///< all micro-batches, forward and backward
  double forward = 0, backward = 0;  ///< of one micro-batch, input gradients alone
  double port = 0;                   ///< all messages in, or all out
  /// Where the pipeline is always full, as it is judged: every micro-batch as the largest, every latency counts.
  struct Full {
    double work = 0, port = 0, messages = 0;  ///< the last: in and out
  } full;
  double tail = 0;   ///< all-reduce and optimizer
  double bytes = 0;  ///< least peak
};

/// For one micro-batch count: ranges of blocks on numbers of devices, priced by the best kind of device, the best link,
/// the smallest micro-batch and one micro-batch in flight. A range is priced when it is first asked for.
class FloorEntries {
 public:
  FloorEntries(const StageProblem& problem, const RangeCosts& ranges, const BestLinks& links, uint64_t micro_batches);

  /// How many steps a search through all of them takes.
  static double steps(const StageProblem& problem);

  uint32_t unit() const { return unit_; }    ///< devices that count as one
  uint32_t units() const { return units_; }  ///< of the cluster
  double micro_batches() const { return static_cast<double>(micro_batches_); }

  /// The message from the block before `a` to a stage that begins there, and its gradient.
  struct Joint {
    bool follows = false, returns = false;  ///< whether there are such
    double there = 0, back = 0;             ///< of one micro-batch, for the replica that is first
    double both = 0;                        ///< of one micro-batch, there and back, between the last replicas
    double joined = 0;                      ///< the former of all micro-batches, on the busiest port
  };
  const Joint& joint(uint32_t a, uint16_t replicas) const { return joints_[a * groups_.size() + replicas]; }

  /// How many units may stand before a block where no stage works longer than a limit.
  struct Band {
    std::vector<uint32_t> least, most;  ///< by block; least > most: none
  };
  Band band(double limit) const;

  /// Stages from block `a` that a plan can have where no stage works longer than `limit` (perhaps a few more),
  /// ascending by end, then by replicas. Empty as well when the budget is spent.
  std::span<const FloorEntry> from(uint32_t a, double limit, BoundBudget& budget);

 private:
  /// Replica counts that are told apart from others.
  struct Group {
    uint64_t least = 1, most = 1;
    uint16_t units = 0;
    size_t share = 0, larger_share = 0;  ///< of the smallest and the largest micro-batch
    double largest = 0;                  ///< samples of the largest micro-batch that the last replica has
    double busiest = 0;                  ///< likewise of the smallest
    double any = 0;                      ///< likewise those that every replica has that has some
    double common = 0;  ///< likewise those that the last replicas of this and of the stage before have in common
  };
  void add_groups();
  /// Samples of the smallest micro-batch that the last of so many replicas sends and receives.
  double last_share(uint64_t replicas) const;
  /// A replica sends and receives its part of all bytes of a message, also of those that do not grow with samples; the
  /// parts are those of the largest micro-batch.
  double message_bytes(const Affine& bytes, double samples) const;
  void add_spread();
  void add_joints();
  void price(uint32_t a);
  bool add(uint32_t a, uint32_t b, uint16_t group);
  void add_messages(FloorEntry& entry, uint32_t a, uint32_t b, const Group& group) const;
  double fitting(FloorEntry& entry, uint32_t a, uint32_t b, size_t share) const;

  const StageProblem& problem_;
  const RangeCosts& ranges_;
  const BestLinks& links_;
  uint64_t micro_batches_;
  uint64_t more_ = 0;  ///< micro-batches with one sample more
  /// Of the smallest and the largest micro-batch; of the smallest with the input gradients as backward time.
  StagePrices small_, large_, inputs_;
  uint32_t unit_ = 1, units_ = 1;
  double memory_ = 0;  ///< of the largest device
  double rate_ = 0;    ///< of the fastest device memory
  std::vector<Group> groups_;
  /// By block: the least of work * units of all before it.
  std::vector<double> spread_;
  std::vector<Joint> joints_;  ///< by block, then replica count
  double built_ = -1;          ///< the limit that `entries_` hold for
  Band built_band_;
  std::vector<std::vector<FloorEntry>> entries_;  ///< by first block
  std::vector<char> priced_;
  uint64_t spent_ = 0;  ///< of the block being priced
};

}  // namespace rannc::partition
