/// Prices optimistic stages on demand for the lower-bound search.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <stop_token>
#include <vector>

#include "partition/stages/pricing/prices.h"
#include "partition/stages/pricing/stage_hulls.h"

namespace rannc::partition {

/// Remaining effort of the bound search. A search that exhausts it returns a weaker but still valid bound.
struct BoundBudget {
  uint64_t steps = UINT64_MAX;  ///< of a few ns
  std::stop_token stop = {};

  /// Spends `amount`. Returns false and empties the budget if less is left or a stop is requested.
  bool take(uint64_t amount) {
    if (amount > steps || stop.stop_requested()) steps = 0;
    if (steps == 0) return false;
    steps -= amount;
    return true;
  }
  bool spent() const { return steps == 0; }
};

/// The best links of a cluster, optimistic for every plan.
class BestLinks {
 public:
  explicit BestLinks(const Cluster& cluster);
  const Link& any() const { return any_; }
  /// For a group of devices. Groups larger than a node must cross between nodes.
  const Link& of_group(uint64_t devices) const { return devices <= largest_node_ ? any_ : between_; }

 private:
  Link any_{1, 0}, between_{1, 0};
  uint64_t largest_node_ = 1;
};

/// Relaxation of some points of a stage's hull: the most micro-batches that fit with one of them, and the least share
/// of a forward pass that one of them repeats.
struct FloorTrade {
  double slots = 0;  ///< 0: there are none
  double share = 1;
};
using FloorTrades = std::array<FloorTrade, 4>;  ///< by quarters of the share

/// Blocks up to `end` on `units` devices under the best conditions of the cluster. Times in ns, of a mini-batch unless
/// stated otherwise.
struct FloorEntry {
  uint32_t end = 0;
  uint16_t units = 0, replicas = 0;  ///< index of the replica count for `replicas`; `units` counts device units
  double slots = 0;                  ///< micro-batches that fit without recompute; 0: none
  double repeated_slots = 0;         ///< the same with recompute
  double work = 0;                   ///< all micro-batches, forward and backward
  double forward = 0, backward = 0;  ///< of one micro-batch, with input gradients only
  double port = 0;                   ///< all incoming or all outgoing messages, whichever take longer
  /// Times of an always full pipeline, as the judge computes them: all micro-batches as large as the largest, all
  /// latencies included.
  struct Full {
    double work = 0, port = 0, messages = 0;  ///< `messages`: incoming and outgoing
  } full;
  double sums = 0, update = 0;          ///< all-reduce, and optimizer
  double tail = 0;                      ///< part of both that must follow the work
  double bytes = 0;                     ///< least peak memory
  const FloorTrades* trades = nullptr;  ///< between no and whole recompute; null: none that helps
};

/// Prices of all ranges of blocks on all numbers of devices for one micro-batch count. Uses the best kind of device,
/// the best link, the smallest micro-batch and one micro-batch in flight. Ranges are priced on first use.
class FloorEntries {
 public:
  FloorEntries(const StageProblem& problem, const RangeCosts& ranges, const BestLinks& links, uint64_t micro_batches);

  /// Number of steps of a search through all entries.
  static double steps(const StageProblem& problem);

  uint32_t unit() const { return unit_; }    ///< devices that are counted as one
  uint32_t units() const { return units_; }  ///< units of the cluster
  double micro_batches() const { return static_cast<double>(micro_batches_); }

  /// Message from the block before `a` to a stage that begins at `a`, and its gradient.
  struct Joint {
    bool follows = false, returns = false;  ///< whether the message and its gradient exist
    double there = 0, back = 0;             ///< of one micro-batch, for the first replica
    double both = 0;                        ///< of one micro-batch, both directions, between the last replicas
    double joined = 0;                      ///< messages of all micro-batches, on the busiest port
  };
  const Joint& joint(uint32_t a, uint16_t replicas) const { return joints_[a * groups_.size() + replicas]; }

  /// Numbers of units that may precede each block if no stage works longer than a limit.
  struct Band {
    std::vector<uint32_t> least, most;  ///< by block; least > most: no number
  };
  Band band(double limit) const;

  /// Stages from block `a` in plans without a stage that works longer than `limit` (and perhaps a few more), ascending
  /// by end, then by replicas. Also empty if the budget is spent.
  std::span<const FloorEntry> from(uint32_t a, double limit, BoundBudget& budget);

 private:
  /// A range of replica counts that is priced as one.
  struct Group {
    uint64_t least = 1, most = 1;
    uint16_t units = 0;
    size_t share = 0, larger_share = 0;  ///< of the smallest and the largest micro-batch
    double largest = 0;                  ///< samples of the largest micro-batch on the last replica
    double busiest = 0;                  ///< the same for the smallest micro-batch
    double any = 0;                      ///< samples of the smallest micro-batch on every replica that has any
    double common = 0;  ///< samples of it that the last replicas of this and of the previous stage share
  };
  void add_groups();
  /// Samples of the smallest micro-batch that the last of `replicas` replicas sends and receives.
  double last_share(uint64_t replicas) const;
  /// Bytes of a message that one replica sends and receives. Its share applies to all bytes, including those that do
  /// not grow with samples. Shares are those of the largest micro-batch.
  double message_bytes(const Affine& bytes, double samples) const;
  void add_spread();
  void add_late_sums();
  /// Least time of the sums of blocks from `a` on that must follow the last backward pass of the blocks [a, b). To be
  /// called with ascending `b` for each `a`.
  double late_sums(uint32_t a, uint32_t b, uint16_t group);
  void add_joints();
  void price(uint32_t a);
  bool add(uint32_t a, uint32_t b, uint16_t group);
  void add_messages(FloorEntry& entry, uint32_t a, uint32_t b, const Group& group) const;
  double fitting(FloorEntry& entry, uint32_t a, uint32_t b, size_t share) const;
  /// Micro-batches that fit with these bytes; 0: none.
  double slots_of(const StageBytes& bytes) const;
  void add_trades(FloorEntry& entry, uint32_t a, uint32_t b, size_t share);
  double most_replicas() const { return static_cast<double>(problem_.cluster.size()); }

  const StageProblem& problem_;
  const RangeCosts& ranges_;
  const BestLinks& links_;
  uint64_t micro_batches_;
  uint64_t more_ = 0;  ///< micro-batches with one sample more
  /// For the smallest and the largest micro-batch, and for the smallest with input gradients alone as backward time.
  StagePrices small_, large_, inputs_;
  uint32_t unit_ = 1, units_ = 1;
  double memory_ = 0;  ///< of the largest device
  double rate_ = 0;    ///< of the fastest device memory
  std::vector<Group> groups_;
  /// By block: least work * units of all blocks before it.
  std::vector<double> spread_;
  std::vector<Joint> joints_;  ///< by block, then replica count
  /// [replica count][block]: time of the sums of all blocks before it and of some of its own, less that of the backward
  /// passes behind which these become final; and the same without its own.
  std::vector<std::vector<double>> late_, late_before_;
  struct Latest {
    uint32_t end = 0;  ///< blocks before it have been compared
    double most = 0;
  };
  std::vector<Latest> latest_;  ///< by replica count, for the first block that is being priced
  double built_ = -1;           ///< the limit for which `entries_` are valid
  Band built_band_;
  std::vector<std::vector<FloorEntry>> entries_;  ///< by first block
  std::vector<char> priced_;
  StageHulls hulls_;
  /// Hull of the blocks that are being priced; empty: not computed yet.
  std::vector<RebuildPoint> points_;
  std::deque<FloorTrades> trades_;
  uint64_t spent_ = 0;  ///< steps spent on the block that is being priced
};

}  // namespace rannc::partition
