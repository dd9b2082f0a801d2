#include "partition/stages/bounds/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "partition/stages/bounds/stage_floor.h"
#include "partition/stages/bounds/weighted_sums.h"
#include "partition/transfers.h"

namespace rannc::partition {
namespace {

constexpr double kSafe = 1 - 1e-9;   ///< against rounding of sums
constexpr double kPrecision = 1e-3;  ///< relative, of a bisected bound
constexpr double kCoarse = 2e-2;     ///< likewise, for stages alone
constexpr double kMostSteps = 2e7;   ///< of a query; beyond this no promising stages are computed

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/// Values by their producers.
std::vector<std::vector<const BlockValue*>> made_by(const StageProblem& problem) {
  std::vector<std::vector<const BlockValue*>> made(problem.blocks);
  for (const BlockValue& value : problem.values) made[value.producer].push_back(&value);
  return made;
}

/// Returns the longest path of one micro-batch: forward along values to some block, back along values with a gradient.
double longest_way(const StageProblem& problem, const std::vector<double>& forward,
                   const std::vector<double>& backward) {
  const std::vector<std::vector<const BlockValue*>> made = made_by(problem);
  std::vector<double> there(problem.blocks, 0), back(problem.blocks, 0);  // before the block itself
  double longest = 0;
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    const double reached = there[b] + forward[b], left = back[b] + backward[b];
    longest = std::max(longest, reached + left);
    for (const BlockValue* value : made[b]) {
      for (const uint32_t reader : value->readers) {
        there[reader] = std::max(there[reader], reached);
        if (value->gradient) back[reader] = std::max(back[reader], left);
      }
    }
  }
  return longest;
}

/// Bounds by single sums, for one micro-batch count.
class Sums {
 public:
  Sums(const StageProblem& problem, uint64_t count) : problem_(problem), count_(static_cast<double>(count)) {
    const uint64_t samples = problem.mini_batch / count;  // the smallest micro-batch
    for (uint32_t b = 0; b < problem.blocks; ++b) add(b, samples);
  }

  Bound time() const {
    const bool step = problem_.objective == Objective::kStepTime;
    const Bound terms[] = {{count_ * work_ / problem_.cluster.size(), "work over all devices"},
                           {count_ * heaviest_, "heaviest block"},
                           {step ? longest_way(problem_, forward_, inputs_) : 0, "one micro-batch through all blocks"}};
    return *std::max_element(std::begin(terms), std::end(terms),
                             [](const Bound& a, const Bound& b) { return a.value < b.value; });
  }

 private:
  void add(uint32_t b, uint64_t samples) {
    double spread = kInfinity, alone = kInfinity, there = kInfinity, back = kInfinity;
    for (uint64_t replicas = 1; replicas <= std::min<uint64_t>(samples, problem_.cluster.size());) {
      const uint64_t share = ceil_div(samples, replicas);
      for (const TimeTable& table : problem_.times) {
        const TimeTable::Blend blend = table.blend(share);
        const auto at = [&](const auto& rows) {
          return rows.empty() ? 0.0 : blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
        };
        const double time = at(table.forward) + at(table.backward);
        there = std::min(there, at(table.forward));
        back = std::min(back, at(table.backward) - at(table.weight_gradient));
        spread = std::min(spread, time * static_cast<double>(replicas));
        alone = std::min(alone, time);
      }
      if (share == 1) break;
      replicas = ceil_div(samples, share - 1);
    }
    work_ += spread;
    heaviest_ = std::max(heaviest_, alone);
    forward_.push_back(there);
    inputs_.push_back(back);
  }

  const StageProblem& problem_;
  double count_;
  double work_ = 0, heaviest_ = 0;
  std::vector<double> forward_, inputs_;  ///< of each block on its cheapest share
};

/// Bounds the step of plans whose stages may share devices, for one micro-batch count.
///
/// Such a plan has P places, each of m devices with the same stages. Number them by their first block. Place p is idle
/// until a micro-batch has come to one of the blocks from p on, since p blocks of other places lie in front, through
/// blocks of at most D - P + 1 replicas: at least H(p). It then has m (T - H(p)) of device time. A block that m
/// replicas share costs c(m) = m (micro-batches * time of a share + update) of it, at least e(m) times the least c of
/// this block. So, over all places, the sum of m (T - H(p)) / e(m) is at least the sum of the least c of all blocks.
/// Sizes of places that add up to at most D devices maximise it by dynamic programming over (place, devices).
class Places {
 public:
  Places(const StageProblem& problem, uint64_t count)
      : problem_(problem), devices_(problem.cluster.size()), made_(made_by(problem)), excess_(devices_ + 1, kInfinity) {
    const uint64_t samples = problem.mini_batch / count;  // the smallest micro-batch
    const auto most = static_cast<uint32_t>(std::min<uint64_t>(samples, devices_));
    double rate = 0;
    for (const DeviceKind& kind : problem.cluster.kinds) rate = std::max(rate, kind.bytes_per_second);
    forward_.assign(devices_ + 1, std::vector<double>(problem.blocks, kInfinity));
    for (uint32_t b = 0; b < problem.blocks; ++b) {
      const double update =
          optimizer_pass_ns(problem.parameter_bytes[b], gradient_bytes(problem, b), state_bytes(problem, b), rate);
      std::vector<double> costs(most + 1, kInfinity);
      double least = kInfinity, there = kInfinity;
      for (uint32_t m = 1; m <= devices_; ++m) {
        for (size_t kind = 0; m <= most && kind < problem.times.size(); ++kind) {
          const TimeTable& table = problem.times[kind];
          const TimeTable::Blend blend = table.blend(ceil_div(samples, m));
          const auto at = [&](const auto& rows) {
            return blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
          };
          const double passes = static_cast<double>(count) * (at(table.forward) + at(table.backward));
          costs[m] = std::min(costs[m], m * passes + (problem.sharded ? 1 : m) * update);
          there = std::min(there, at(table.forward));
        }
        if (m <= most) least = std::min(least, costs[m]);
        forward_[m][b] = there;
      }
      needed_ += least;
      for (uint32_t m = 1; m <= most && least > 0; ++m) excess_[m] = std::min(excess_[m], costs[m] / least);
    }
  }

  static bool fits(const StageProblem& problem) {
    return problem.objective == Objective::kStepTime && problem.cluster.size() <= kMostDevices;
  }

  /// The least step that the condition admits, to a relative kPrecision, from `floor` on.
  double least_step(double floor) const {
    double low = floor, high = std::max(floor, needed_);  // one device does all
    if (needed_ <= 0 || possible(low)) return floor;
    while (high > low * (1 + kPrecision)) {
      const double middle = std::sqrt(low * high);
      (possible(middle) ? high : low) = middle;
    }
    return low;
  }

 private:
  static constexpr uint32_t kMostDevices = 32;  // the search takes O(devices^4)

  bool possible(double step) const {
    for (uint32_t places = 1; places <= std::min(devices_, problem_.blocks); ++places) {
      if (work_within(step, places) >= needed_ * kSafe) return true;
    }
    return false;
  }

  double work_within(double step, uint32_t places) const {
    const uint32_t largest = devices_ - places + 1;
    const std::vector<double> heads = heads_of(forward_[largest]);
    std::vector<double> done(devices_ + 1, 0);  // by devices, of the places behind
    for (uint32_t p = places; p-- > 0;) {
      const double left = std::max(0.0, step - heads[p]);
      std::vector<double> with(devices_ + 1, 0);
      for (uint32_t all = 0; all <= devices_; ++all) {
        for (uint32_t m = 1; m <= std::min(all, largest); ++m)
          with[all] = std::max(with[all], m * left / excess_[m] + done[all - m]);
      }
      done = std::move(with);
    }
    return done[devices_];
  }

  /// H: when the first of the blocks from each one on can begin.
  std::vector<double> heads_of(const std::vector<double>& forward) const {
    std::vector<double> heads(problem_.blocks, 0);
    for (uint32_t b = 0; b < problem_.blocks; ++b) {
      for (const BlockValue* value : made_[b]) {
        for (const uint32_t reader : value->readers) heads[reader] = std::max(heads[reader], heads[b] + forward[b]);
      }
    }
    for (uint32_t b = problem_.blocks; b-- > 1;) heads[b - 1] = std::min(heads[b - 1], heads[b]);
    return heads;
  }

  const StageProblem& problem_;
  uint32_t devices_;
  std::vector<std::vector<const BlockValue*>> made_;  ///< by block
  double needed_ = 0;                         ///< device time of all blocks, each with its best number of replicas
  std::vector<double> excess_;                ///< e, by replicas
  std::vector<std::vector<double>> forward_;  ///< of a micro-batch by most replicas and block
};

/// Bounds peak memory by the largest block and by an equal share of all blocks.
Bound memory_sums(const StageProblem& problem, const RangeCosts& ranges) {
  double largest = 0;
  for (uint32_t b = 0; b < problem.blocks; ++b) largest = std::max(largest, ranges.resident(b, b + 1));
  const double spread = ranges.resident(0, problem.blocks) / problem.cluster.size();
  return largest > spread ? Bound{largest, "largest block"} : Bound{spread, "parameters over all devices"};
}

Bound sums_bound(const StageProblem& problem, const RangeCosts& ranges, uint64_t count) {
  return problem.objective == Objective::kPeakMemory ? memory_sums(problem, ranges) : Sums(problem, count).time();
}

/// Raises a bound by single sums.
Bound raised(const StageProblem& problem, uint64_t count, Bound sums, BoundBudget& budget) {
  if (problem.objective != Objective::kStepTime) return sums;
  Bound weighted = WeightedSums(problem, count).least_step(budget);
  return weighted.value > sums.value * (1 + kPrecision) ? std::move(weighted) : std::move(sums);
}

class Bisection {
 public:
  Bisection(const StageProblem& problem, const RangeCosts& ranges)
      : problem_(problem), ranges_(ranges), links_(problem.cluster) {}

  /// Returns the highest value below `ceiling` (short by a relative kPrecision) that stages of `count` micro-batches
  /// provably do not meet; `ceiling` if they cannot meet even that, `floor` if nothing is proven.
  double raise(uint64_t count, double floor, double ceiling, BoundBudget& budget) const {
    StageFloor stages(problem_, ranges_, links_, count);
    return raise(stages, floor, ceiling, kPrecision, budget);
  }

  std::vector<std::vector<StageOutline>> outlines(uint64_t count) const {
    BoundBudget budget;
    StageFloor stages(problem_, ranges_, links_, count, StageFloor::Recompute::kFree);
    std::vector<std::vector<StageOutline>> found;
    const double least = raise(stages, sums_bound(problem_, ranges_, count).value, kInfinity, kCoarse, budget);
    if (least == kInfinity) return found;
    for (const double slack : {1 + kCoarse, 1.05, 1.1, 1.2, 1.35}) {
      auto next = stages.stages(limits(least * slack), budget);
      if (!next.empty() && (found.empty() || !(next == found.back()))) found.push_back(std::move(next));
    }
    return found;
  }

 private:
  double raise(StageFloor& stages, double floor, double ceiling, double precision, BoundBudget& budget) const {
    double low = std::max(floor, 1.0), high = ceiling;
    if (high == kInfinity) {
      if (!stages.possible(limits(kInfinity), budget)) return ceiling;
      if (stages.possible(limits(low), budget)) return floor;
      for (high = 2 * low; !stages.possible(limits(high), budget); high *= 2) low = high;
    } else if (!stages.possible(limits(high * kSafe), budget)) {
      return ceiling;
    } else if (stages.possible(limits(low), budget)) {
      return floor;
    }
    while (high > low * (1 + precision) && !budget.spent()) {
      const double middle = std::sqrt(low * high);
      (stages.possible(limits(middle), budget) ? high : low) = middle;
    }
    return low;
  }

  StageFloor::Limits limits(double value) const {
    const double step = problem_.step_limit_ns.value_or(kInfinity);
    if (problem_.objective == Objective::kPeakMemory) return {kInfinity, step, value};
    return {value, step, kInfinity};
  }

  const StageProblem& problem_;
  const RangeCosts& ranges_;
  const BestLinks links_;
};

}  // namespace

std::vector<std::vector<StageOutline>> promising_stages(const StageProblem& problem, const RangeCosts& ranges,
                                                        uint64_t micro_batches) {
  if (FloorEntries::steps(problem) > kMostSteps) return {};
  return Bisection(problem, ranges).outlines(micro_batches);
}

Bound lower_bound(const StageProblem& problem, const RangeCosts& ranges, const BoundEffort& effort) {
  std::vector<std::pair<Bound, uint64_t>> counts;
  for (const uint64_t count : micro_batch_candidates(problem)) {
    counts.push_back({sums_bound(problem, ranges, count), count});
  }
  const auto lower = [](const auto& a, const auto& b) { return a.first.value < b.first.value; };
  std::stable_sort(counts.begin(), counts.end(), lower);
  if (counts.empty()) return {0, "no micro-batch count divides the mini-batch"};
  Bound best = counts.front().first;
  if (effort.shared_devices || problem.constraints.stages_per_device.value_or(1) > 1) {
    Bound least{kInfinity, ""};
    for (const auto& [sums, count] : counts) {
      if (sums.value >= least.value) break;
      BoundBudget budget{effort.steps / counts.size(), effort.stop};
      Bound bound = raised(problem, count, sums, budget);
      if (bound.value < least.value && Places::fits(problem)) {
        const double value = Places(problem, count).least_step(bound.value);
        if (value > bound.value) bound = {value, "work and start of shared devices"};
      }
      if (bound.value < least.value) least = bound;
    }
    if (least.value > best.value * (1 + kPrecision)) best = least;
    best.value *= kSafe;
    return best;
  }
  const Bisection stages(problem, ranges);
  uint64_t left = effort.steps;
  double ceiling = effort.enough > 0 ? effort.enough : kInfinity;
  const std::string of_stages = "stages of a pipeline";
  std::string reaches = counts.front().first.argument;  // the ceiling; of the counts, the strongest argument needed
  for (size_t i = 0; i < counts.size() && counts[i].first.value < ceiling; ++i) {
    const auto& [single, count] = counts[i];
    // Each count may spend an equal part of the remaining budget, because the smallest bound decides.
    const uint64_t share = left / (counts.size() - i), of_sums = share / 4;
    BoundBudget for_sums{of_sums, effort.stop};
    const Bound sums = raised(problem, count, single, for_sums);
    BoundBudget budget{share - of_sums + for_sums.steps, effort.stop};
    if (sums.value < ceiling) {
      const double value = stages.raise(count, sums.value, ceiling, budget);
      if (value < ceiling) best = value > sums.value * (1 + kPrecision) ? Bound{value, of_stages} : sums;
      ceiling = std::min(ceiling, value);
      reaches = of_stages;
    } else if (reaches != of_stages) {
      reaches = sums.argument;
    }
    left -= share - budget.steps;
  }
  if (ceiling == effort.enough) best = {effort.enough, reaches};
  best.value = std::max(best.value, counts.front().first.value) * kSafe;
  return best;
}

}  // namespace rannc::partition
