#include "partition/stages/bounds/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partition/stages/bounds/stage_floor.h"

namespace rannc::partition {
namespace {

constexpr double kSafe = 1 - 1e-9;   ///< against rounding of sums
constexpr double kPrecision = 1e-3;  ///< relative, of a bisected bound
constexpr double kCoarse = 2e-2;     ///< likewise, for stages alone
constexpr double kMostSteps = 2e7;   ///< of a query; beyond this no promising stages are computed

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/// Returns the longest path of one micro-batch: forward along values to some block, back along values with a gradient.
double longest_way(const StageProblem& problem, const std::vector<double>& forward,
                   const std::vector<double>& backward) {
  std::vector<std::vector<const BlockValue*>> made(problem.blocks);
  for (const BlockValue& value : problem.values) made[value.producer].push_back(&value);
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
    best.value *= kSafe;
    return best;
  }
  const Bisection stages(problem, ranges);
  uint64_t left = effort.steps;
  double ceiling = effort.enough > 0 ? effort.enough : kInfinity;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto& [sums, count] = counts[i];
    if (sums.value >= ceiling) break;
    // Each count may spend an equal part of the remaining budget, because the smallest bound decides.
    const uint64_t share = left / (counts.size() - i);
    BoundBudget budget{share, effort.stop};
    const double raised = stages.raise(count, sums.value, ceiling, budget);
    left -= share - budget.steps;
    if (raised < ceiling) best = raised > sums.value * (1 + kPrecision) ? Bound{raised, "stages of a pipeline"} : sums;
    ceiling = std::min(ceiling, raised);
  }
  if (ceiling == effort.enough) best = {effort.enough, "stages of a pipeline"};
  best.value = std::max(best.value, counts.front().first.value) * kSafe;
  return best;
}

}  // namespace rannc::partition
