/// Defines the feasibility query of the exact searches: a stage plan under limits on its times.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "partition/stages/pricing/prices.h"

namespace rannc::partition {

/// Limits on `forward_ns`, `backward_ns` and their sum for every stage.
struct TimeLimits {
  double forward_ns = 0, backward_ns = 0, both_ns = 0;
  bool allow(const StageNeed& need) const {
    return need.forward_ns <= forward_ns && need.backward_ns <= backward_ns &&
           need.forward_ns + need.backward_ns <= both_ns;
  }
};

struct StageCount {
  uint32_t least = 1, most = 1;
};

/// Blocks [first, end) on the devices [from, to) of the pipeline.
struct CoveredStage {
  uint32_t first = 0, end = 0, from = 0, to = 0;
  bool recompute = false;
  StageNeed need;
};

struct Cover {
  std::vector<CoveredStage> stages;
  double forward_ns = 0, backward_ns = 0;  ///< largest among the stages
};

/// Splits all blocks into stages on consecutive devices from device 0 on. Devices after the last stage are idle.
class CoverFinder {
 public:
  virtual ~CoverFinder() = default;
  /// Returns a cover within the limits with as few stages as the count allows. Exact: an empty result proves that none
  /// exists, unless `interrupted`.
  virtual std::optional<Cover> find(const TimeLimits& limits, StageCount count) = 0;
  /// Queries end with an empty result once `stop` is requested. `interrupted` then returns true: the result proves
  /// nothing.
  void stop_on(std::stop_token stop) { stop_ = std::move(stop); }
  /// Whether the last query was stopped.
  bool interrupted() const { return interrupted_; }
  /// Replaces the memory of every device (bytes), to determine how much would be needed.
  virtual void set_memory(std::optional<double> bytes) = 0;
  uint64_t micro_batches() const { return micro_batches_; }
  /// Lower bound on the largest forward + largest backward time of any cover: work spread evenly over all devices, or
  /// the heaviest block on the smallest share.
  virtual double least_step_ns() const = 0;

 protected:
  explicit CoverFinder(uint64_t micro_batches) : micro_batches_(micro_batches) {}
  bool stopped() { return interrupted_ = stop_.stop_requested(); }

 private:
  uint64_t micro_batches_;
  std::stop_token stop_;
  bool interrupted_ = false;
};

/// Cover finder for equal devices and equal links. Computes least devices per (stages, first block) in O(blocks^2 *
/// stages) a query.
std::unique_ptr<CoverFinder> uniform_cover(const StageProblem& problem, const RangeCosts& ranges,
                                           uint64_t micro_batches);

/// Cover finder for unequal devices or links, on the first `devices` devices, replicated `copies` times. Computes
/// reachable device positions per (stages, first block) in O(blocks^2 * devices^2 * (1 + stages / 64)) a query.
std::unique_ptr<CoverFinder> positional_cover(const StageProblem& problem, const RangeCosts& ranges,
                                              uint64_t micro_batches, uint32_t devices, uint32_t copies);

/// Returns the recompute choices that a problem allows, the faster first.
std::vector<bool> recompute_choices(RecomputeRule rule);

}  // namespace rannc::partition
