#include "partition/stages/papers/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/judge.h"

namespace rannc::partition {
namespace {

/// State of the Bárány–Grinberg walk: block p is [ends[p-1], ends[p]). Costs are multiples of 2^-32 of their range, so
/// that sums compare exactly and the walk terminates.
class Blocks {
 public:
  static constexpr uint64_t kOne = uint64_t{1} << 32;

  Blocks(const std::vector<double>& costs, uint32_t parts) : sums_(costs.size() + 1, 0), ends_(parts) {
    const auto [least, most] = std::minmax_element(costs.begin(), costs.end());
    const double range = *most - *least;
    for (size_t i = 0; i < costs.size(); ++i) {
      const double scaled = range > 0 ? (costs[i] - *least) / range : 1;
      sums_[i + 1] = sums_[i] + static_cast<uint64_t>(std::llround(scaled * static_cast<double>(kOne)));
    }
    const uint32_t size = static_cast<uint32_t>(costs.size()) / parts;
    for (uint32_t p = 0; p < parts; ++p) ends_[p] = size * (p + 1);
    ends_.back() = static_cast<uint32_t>(costs.size());
  }

  uint32_t parts() const { return static_cast<uint32_t>(ends_.size()); }
  uint64_t size(uint32_t p) const { return sums_[ends_[p]] - sums_[p == 0 ? 0 : ends_[p - 1]]; }

  uint32_t largest() const {
    uint32_t best = 0;
    for (uint32_t p = 1; p < parts(); ++p) {
      if (size(p) >= size(best)) best = p;
    }
    return best;
  }

  /// Returns the smallest block, the nearest one to p among equals.
  uint32_t smallest(uint32_t p) const {
    const auto far = [p](uint32_t q) { return q < p ? p - q : q - p; };
    uint32_t best = p == 0 ? parts() - 1 : 0;
    for (uint32_t q = 0; q < parts(); ++q) {
      if (size(q) < size(best) || (size(q) == size(best) && far(q) < far(best))) best = q;
    }
    return best;
  }

  /// Moves one element into q from its neighbour on the side of p. Returns that neighbour.
  uint32_t feed(uint32_t q, uint32_t p) {
    if (p < q) {
      --ends_[q - 1];
      return q - 1;
    }
    ++ends_[q];
    return q + 1;
  }

  const std::vector<uint32_t>& ends() const { return ends_; }

 private:
  std::vector<uint64_t> sums_;
  std::vector<uint32_t> ends_;
};

/// Returns ends for which every block takes as much as fits below `cap`, or nothing if `parts` do not suffice.
std::vector<uint32_t> greedy(const std::vector<double>& costs, uint32_t parts, double cap) {
  std::vector<uint32_t> ends;
  const uint32_t n = static_cast<uint32_t>(costs.size());
  for (uint32_t i = 0; i < n;) {
    if (ends.size() == parts || costs[i] > cap) return {};
    double sum = 0;
    const uint32_t still = parts - static_cast<uint32_t>(ends.size()) - 1;  // blocks to come, none empty
    while (i < n - still && sum + costs[i] <= cap) sum += costs[i++];
    if (sum == 0 && (i == n - still)) {
      if (ends.empty() ? i == 0 : ends.back() == i) return {};
    }
    ends.push_back(i);
  }
  return ends.size() == parts ? ends : std::vector<uint32_t>();
}

}  // namespace

double largest_block(const std::vector<double>& costs, const std::vector<uint32_t>& ends) {
  double largest = 0;
  uint32_t from = 0;
  for (const uint32_t end : ends) {
    largest = std::max(largest, std::accumulate(costs.begin() + from, costs.begin() + end, 0.0));
    from = end;
  }
  return largest;
}

std::vector<uint32_t> block_partition(const std::vector<double>& costs, uint32_t parts) {
  RANNC_CHECK(parts >= 1 && parts <= costs.size()) << parts << " parts of " << costs.size();
  Blocks blocks(costs, parts);
  while (true) {
    const uint32_t p = blocks.largest();
    while (true) {
      const uint32_t q = blocks.smallest(p);
      if (q == p || blocks.size(p) <= blocks.size(q) + Blocks::kOne) return blocks.ends();
      if (blocks.feed(q, p) == p) break;
    }
  }
}

std::vector<uint32_t> exact_partition(const std::vector<double>& costs, uint32_t parts) {
  RANNC_CHECK(parts >= 1 && parts <= costs.size()) << parts << " parts of " << costs.size();
  double low = *std::max_element(costs.begin(), costs.end());
  std::vector<uint32_t> best = greedy(costs, parts, std::numeric_limits<double>::infinity());
  double high = largest_block(costs, best);
  if (auto found = greedy(costs, parts, low); !found.empty()) return found;
  for (int step = 0; step < 200 && low < high; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    auto found = greedy(costs, parts, middle);
    if (found.empty()) {
      low = middle;
    } else {
      high = std::min(middle, largest_block(costs, found));
      best = std::move(found);
    }
  }
  return best;
}

namespace {

class GpipePlanner final : public StagePlanner {
 public:
  GpipePlanner(BalanceBy by, BalanceMethod method) : by_(by), method_(method) {}

  std::string name() const override {
    return std::string("gpipe") + (by_ == BalanceBy::kSize ? "-size" : "") +
           (method_ == BalanceMethod::kExact ? "-exact" : "");
  }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token /*stop*/) const override {
    // Blocks that no cut may separate are balanced as one.
    std::vector<uint32_t> starts;
    for (uint32_t b = 0; b < problem.blocks; ++b) {
      const auto& forbidden = problem.constraints.forbidden_cuts;
      if (!std::binary_search(forbidden.begin(), forbidden.end(), b)) starts.push_back(b);
    }
    const StageCount count = stage_count(problem);
    const uint32_t parts = std::min<uint32_t>(count.most, static_cast<uint32_t>(starts.size()));
    if (parts < count.least) return Infeasible{"fewer blocks or devices than stages", 0, "request fewer stages"};
    for (const uint32_t replicas : problem.constraints.replicas) {
      if (replicas != 1) return Infeasible{"GPipe has one device per stage", 0, "planner rannc, dapple or auto"};
    }
    PlanJudge judge(problem);
    std::optional<StagePlan> best;
    std::string why;
    for (const uint64_t micro_batches : micro_batch_candidates(problem)) {
      JudgedPlan plan = judge.judge(split(problem, starts, parts, micro_batches));
      if (!plan) why = plan.why();
      if (plan && (!best || plan->objective < best->objective)) best = *std::move(plan);
    }
    if (!best) return Infeasible{"the balanced split does not fit: " + why, 0, "planner rannc or auto"};
    best->notes.push_back(both_methods(costs_of(problem, starts, best->micro_batches), parts));
    best->bottleneck = bottleneck_of(*best);
    return *best;
  }

  /// Costs of what lies between two allowed cuts.
  std::vector<double> costs_of(const StageProblem& problem, const std::vector<uint32_t>& starts,
                               uint64_t micro_batches) const {
    const uint64_t samples = (problem.mini_batch + micro_batches - 1) / micro_batches;
    std::vector<double> costs;
    for (size_t i = 0; i < starts.size(); ++i) {
      const uint32_t end = i + 1 < starts.size() ? starts[i + 1] : problem.blocks;
      costs.push_back(0);
      for (uint32_t b = starts[i]; b < end; ++b) costs.back() += cost(problem, b, samples);
    }
    return costs;
  }

  /// Both methods' largest blocks, whichever is this planner's.
  std::string both_methods(const std::vector<double>& costs, uint32_t parts) const {
    const double near = largest_block(costs, block_partition(costs, parts));
    const double exact = largest_block(costs, exact_partition(costs, parts));
    const bool time = by_ == BalanceBy::kTime;
    return fmt::format(
        "largest block by {}: {:.4g} {} by block partition, {:.4g} {} by the exact partition ({:+.1f} %)",
        time ? "time" : "size", near / 1e6, time ? "ms" : "MB", exact / 1e6, time ? "ms" : "MB",
        exact > 0 ? 100 * (near / exact - 1) : 0);
  }

  StagePlan split(const StageProblem& problem, const std::vector<uint32_t>& starts, uint32_t parts,
                  uint64_t micro_batches) const {
    const std::vector<double> costs = costs_of(problem, starts, micro_batches);
    const auto ends = method_ == BalanceMethod::kExact ? exact_partition(costs, parts) : block_partition(costs, parts);
    StagePlan plan;
    plan.micro_batches = micro_batches;
    uint32_t first = 0;
    for (size_t s = 0; s < ends.size(); ++s) {
      const uint32_t end = ends[s] < starts.size() ? starts[ends[s]] : problem.blocks;
      if (end == first) continue;  // the walk may leave a block empty
      PlannedStage stage;
      stage.first = first;
      stage.end = end;
      stage.devices = {DeviceId::from(plan.stages.size())};
      stage.recompute = problem.recompute == RecomputeRule::kAlways;
      plan.stages.push_back(std::move(stage));
      first = end;
    }
    return plan;
  }

  double cost(const StageProblem& problem, uint32_t b, uint64_t samples) const {
    if (by_ == BalanceBy::kSize) {
      return trained_bytes(problem, b) + problem.stashed_bytes_per_sample[b] * static_cast<double>(samples);
    }
    const TimeTable& table = problem.times[problem.cluster.devices.front().kind];
    const TimeTable::Blend blend = table.blend(samples);
    return blend.low_weight * (table.forward[blend.low][b] + table.backward[blend.low][b]) +
           blend.high_weight * (table.forward[blend.high][b] + table.backward[blend.high][b]);
  }

  BalanceBy by_;
  BalanceMethod method_;
};

}  // namespace

std::unique_ptr<StagePlanner> gpipe_planner(BalanceBy by, BalanceMethod method) {
  return std::make_unique<GpipePlanner>(by, method);
}

}  // namespace rannc::partition
