/// Prices time and memory of one stage on one group of devices, for one micro-batch count.
///
/// The receiving stage pays for a message (value, receiving stage): the activation counts in its forward time, the
/// gradient in its backward time, over the link between its first device and the device before it.
#pragma once

#include <vector>

#include "partition/stages/pricing/stage_bytes.h"

namespace rannc::partition {

/// The largest share of a micro-batch that a replica gets with at least `replicas` replicas.
struct Share {
  uint64_t samples = 0;
  uint32_t replicas = 0;  ///< the least count with this share
};

/// Times that a stage needs on its devices.
struct StageNeed {
  double forward_ns = 0, backward_ns = 0;
};

class StagePrices {
 public:
  /// Replica counts below are those of one pipeline. The whole pipeline is replicated `copies` times, and each
  /// micro-batch is split over all replicas of all copies. A stage has at most `most_replicas` replicas.
  StagePrices(const StageProblem& problem, const RangeCosts& ranges, uint64_t micro_batches, uint32_t most_replicas,
              uint32_t copies);

  const RangeCosts& ranges() const { return *ranges_; }
  uint64_t micro_batches() const { return micro_batches_; }
  InFlight discipline() const { return discipline_; }
  /// Shares in order of descending samples and ascending replicas. Replicas without samples are not included.
  const std::vector<Share>& shares() const { return shares_; }
  /// Index of the share for `replicas` devices, or `shares().size()` if some would have no sample.
  size_t share_of(uint32_t replicas) const;

  double forward(uint32_t a, uint32_t b, size_t share, uint32_t kind) const {
    const double* sums = forward_[share * kinds_ + kind].data();
    return sums[b] - sums[a];
  }
  double backward(uint32_t a, uint32_t b, size_t share, uint32_t kind) const {
    const double* sums = backward_[share * kinds_ + kind].data();
    return sums[b] - sums[a];
  }
  StageNeed need(uint32_t a, uint32_t b, size_t share, uint32_t kind, const Link& link, bool recompute) const {
    const double samples = static_cast<double>(shares_[share].samples);
    const double compute = forward(a, b, share, kind);
    return {compute + link.transfer_ns(ranges_->received(a, b).at(samples)),
            backward(a, b, share, kind) + (recompute ? compute : 0) +
                link.transfer_ns(ranges_->returned(a, b).at(samples))};
  }
  /// Bytes of one replica, if there are as few as the share permits. `more`: see `stage_bytes`.
  StageBytes bytes(uint32_t a, uint32_t b, size_t share, bool recompute, double more = 0) const {
    return least_bytes(a, b, share, recompute, static_cast<double>(shares_[share].replicas) * copies_, more);
  }
  /// A lower bound of the same for any number of replicas up to `most`.
  StageBytes least_bytes(uint32_t a, uint32_t b, size_t share, bool recompute, double most, double more = 0) const {
    const RecomputeRule rule = recompute ? RecomputeRule::kAlways : RecomputeRule::kNever;
    return of_replica(stage_bytes(*ranges_, a, b, static_cast<double>(shares_[share].samples), rule, more), *ranges_, a,
                      b, most);
  }
  /// Same as `CoverFinder::least_step_ns`, over all kinds with `devices` devices.
  double least_step_ns(uint32_t devices) const;
  double peak_bytes(uint32_t a, uint32_t b, size_t share, bool recompute, uint32_t from_end) const;
  /// Largest distance from the end (1 = last) at which the stage still fits; 0: none; UINT32_MAX: unlimited.
  uint32_t farthest_from_end(uint32_t a, uint32_t b, size_t share, bool recompute, double memory) const;

 private:
  const RangeCosts* ranges_;
  uint64_t micro_batches_;
  InFlight discipline_;
  RecomputeRule recompute_;
  size_t kinds_;
  uint64_t samples_;  ///< of the largest micro-batch
  uint32_t copies_;
  std::vector<Share> shares_;
  std::vector<std::vector<double>> forward_, backward_;  ///< [share * kinds + kind], prefix sums over blocks
};

/// Time of a ring all-reduce of `bytes` over `replicas` devices with slowest link `link`: 2 (n - 1) / n bytes at its
/// rate.
double all_reduce_ns(double bytes, uint64_t replicas, const Link& link);

/// Bytes that a device provides under the problem's constraints.
double memory_of(const StageProblem& problem, DeviceId device);

}  // namespace rannc::partition
