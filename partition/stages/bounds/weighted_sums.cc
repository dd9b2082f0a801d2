// Of a plan with M micro-batches, let block b have m replicas on devices that hold the same blocks (a place). Three
// sums over blocks are limited by the cluster or the step T:
//   1 Work. The last replica has ⌈B / n⌉ samples of each micro-batch and works at most T. So m times its passes, what
//     it repeats and its update, added up over blocks, is at most T for each device.
//   2 Path. A micro-batch passes the blocks of a path and its gradient comes back, within T.
//   3 Memory. Take a device and a micro-batch of which it has samples. When one of these turns, in the last block of
//     the path, the device holds what all its blocks keep of its samples: their gradients come from there. What a block
//     does not keep it repeats, unless its backward pass follows its forward pass, but then it holds all at that time.
//     So the bytes of parameters and state of m replicas, and what B samples keep, add up to at most the memory of all
//     devices. Gradients come with the first backward pass of a stage. Before it the n-th micro-batch finds n held.
//     The mean of these over micro-batches that keep different parts is at least what their mean part has, since a
//     stage runs its backward passes in the order of their turns, as all named and found schedules do. The judge gives
//     every replica the largest share, so that all hold the same.
//
// A stage with rebuild hulls repeats a share of its forward time that is computed from the times of its blocks on the
// first kind at the largest size (`StageHulls`). At another size no block takes less than r times that, so a block that
// repeats a share takes at least r times what it takes there.
//
// The number of replicas and what is kept decide a block's part of all three. With any weights of the sums, the least
// weighted part of each block adds up to at most the weighted limits. The weights that give the longest step are
// searched.
#include "partition/stages/bounds/weighted_sums.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "partition/stages/pricing/prices.h"
#include "partition/transfers.h"

namespace rannc::partition {
namespace {

constexpr size_t kMostChoices = 200'000;
constexpr int kPathSteps = 14, kByteSteps = 14;  ///< of the search for weights

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/// Blocks of the longest path along values with gradients, and those whose gradients come from its end.
struct Turn {
  std::vector<char> on_path, held;
};

Turn turn_of(const StageProblem& problem) {
  const uint32_t k = problem.blocks;
  const TimeTable& table = problem.times.front();
  std::vector<double> until(k, 0);
  std::vector<uint32_t> before(k, UINT32_MAX);
  std::vector<std::vector<uint32_t>> readers(k);
  for (const BlockValue& value : problem.values) {
    if (value.gradient)
      readers[value.producer].insert(readers[value.producer].end(), value.readers.begin(), value.readers.end());
  }
  for (uint32_t b = 0; b < k; ++b) {
    until[b] += table.forward.back()[b] + table.backward.back()[b];
    for (const uint32_t reader : readers[b]) {
      if (before[reader] != UINT32_MAX && until[b] <= until[reader]) continue;
      until[reader] = until[b];
      before[reader] = b;
    }
  }
  Turn turn{std::vector<char>(k, 0), std::vector<char>(k, 0)};
  auto last = static_cast<uint32_t>(std::max_element(until.begin(), until.end()) - until.begin());
  turn.held[last] = 1;
  for (uint32_t b = last; b-- > 0;) {
    turn.held[b] =
        std::any_of(readers[b].begin(), readers[b].end(), [&](uint32_t reader) { return turn.held[reader] != 0; });
  }
  for (; last != UINT32_MAX; last = before[last]) turn.on_path[last] = 1;
  return turn;
}

/// Least mean bytes, over `count` micro-batches in the order in which they turn, of gradients and of other
/// micro-batches.
double beside(double gradients, double kept, double count) {
  const double n = kept > 0 ? std::clamp(std::round(gradients / kept + 0.5), 1.0, count) : count;
  return (n * (n - 1) / 2 * kept + (count - n) * gradients) / count;
}

}  // namespace

WeightedSums::WeightedSums(const StageProblem& problem, uint64_t micro_batches)
    : problem_(problem),
      count_(micro_batches),
      samples_(problem.mini_batch / micro_batches),
      devices_(problem.cluster.size()) {
  for (const DeviceKind& kind : problem.cluster.kinds) rate_ = std::max(rate_, kind.bytes_per_second);
  for (size_t d = 0; d < problem.cluster.size(); ++d) memory_ += memory_of(problem, DeviceId::from(d));
  const Turn turn = turn_of(problem);
  choices_.resize(problem.blocks);
  for (uint32_t b = 0; b < problem.blocks && all_choices_ <= kMostChoices; ++b) {
    add_choices(b, turn.on_path[b] != 0, turn.held[b] != 0);
    all_choices_ += choices_[b].size();
  }
  if (all_choices_ > kMostChoices) choices_.clear();
}

void WeightedSums::add_choices(uint32_t block, bool on_path, bool held) {
  // Of the numbers of replicas with the same largest share, the first takes least of everything.
  const uint64_t most = std::min<uint64_t>(samples_, problem_.cluster.size());
  for (uint64_t replicas = 1; replicas <= most;) {
    add_choice(block, replicas, on_path, held);
    const uint64_t share = ceil_div(samples_, replicas);
    if (share == 1) break;
    replicas = ceil_div(samples_, share - 1);
  }
}

double WeightedSums::forward_in_hulls(uint32_t block) const { return problem_.times.front().forward.back()[block]; }

double WeightedSums::least_ratio(uint64_t share) {
  const auto [known, added] = ratios_.try_emplace(share, kInfinity);
  for (uint32_t b = 0; added && b < problem_.blocks; ++b) {
    if (forward_in_hulls(b) <= 0) continue;
    for (const TimeTable& table : problem_.times) {
      const TimeTable::Blend blend = table.blend(share);
      const double time =
          blend.low_weight * table.forward[blend.low][b] + blend.high_weight * table.forward[blend.high][b];
      known->second = std::min(known->second, time / forward_in_hulls(b));
    }
  }
  return known->second;
}

void WeightedSums::add_choice(uint32_t block, uint64_t replicas, bool on_path, bool held) {
  const auto m = static_cast<double>(replicas), all = static_cast<double>(count_),
             samples = static_cast<double>(samples_);
  double forward = kInfinity, backward = kInfinity, inputs = kInfinity;
  for (const TimeTable& table : problem_.times) {
    const TimeTable::Blend blend = table.blend(ceil_div(samples_, replicas));
    const auto at = [&](const auto& rows) {
      return rows.empty() ? 0.0
                          : blend.low_weight * rows[blend.low][block] + blend.high_weight * rows[blend.high][block];
    };
    forward = std::min(forward, at(table.forward));
    backward = std::min(backward, at(table.backward));
    inputs = std::min(inputs, at(table.backward) - at(table.weight_gradient));
  }
  double repeated = forward;
  if (!problem_.rebuild_hulls.empty()) {
    const double there = forward_in_hulls(block);
    repeated = there > 0 ? least_ratio(ceil_div(samples_, replicas)) * there : 0;
  }
  const double gradients = gradient_bytes(problem_, block), state = state_bytes(problem_, block);
  const double update = optimizer_pass_ns(problem_.parameter_bytes[block], gradients, state, rate_);
  const double divided = problem_.sharded ? state * (m - 1) : 0;
  const double buffers = problem_.buffer_bytes.empty() ? 0 : problem_.buffer_bytes[block];
  const double resident = m * (problem_.parameter_bytes[block] + state + buffers) - divided;
  const double stash = held ? samples * problem_.stashed_bytes_per_sample[block] : 0;
  const auto add = [&](double share, double kept) {
    const double work = m * all * (forward + backward + share * repeated) + (problem_.sharded ? 1 : m) * update;
    const double beside_it = m * beside(gradients, kept / m, all);
    choices_[block].push_back({work, on_path ? forward + inputs : 0, resident + kept + beside_it});
  };
  add(0, stash);
  if (stash == 0 || problem_.recompute == RecomputeRule::kNever) return;
  add(1, 0);
  if (problem_.rebuild_hulls.empty()) return;
  for (const RebuildPoint& point : problem_.rebuild_hulls[block]) {
    const double kept = samples * point.bytes_per_sample;
    if (kept < stash && point.share < 1) add(point.share, kept);
  }
}

WeightedSums::Weighed WeightedSums::weigh(double path, double bytes) const {
  const double work = (1 - path) / devices_;
  Weighed sum{-bytes * memory_};
  for (const std::vector<Choice>& choices : choices_) {
    double least = kInfinity;
    const Choice* best = nullptr;
    for (const Choice& choice : choices) {
      const double value = work * choice.work + path * choice.path + bytes * choice.bytes;
      if (value < least) {
        least = value;
        best = &choice;
      }
    }
    if (best == nullptr) continue;
    sum.step += least;
    sum.path += best->path;
    sum.bytes += best->bytes;
  }
  return sum;
}

double WeightedSums::best_step(double path, BoundBudget& budget) const {
  if (!budget.take(all_choices_)) return 0;
  const Weighed without = weigh(path, 0);
  if (without.bytes <= memory_) return without.step;
  double best = without.step, low = 1e-3 * best / memory_, high = 1e3 * best / memory_;
  for (int i = 0; i < kByteSteps && budget.take(all_choices_); ++i) {
    const double middle = std::sqrt(low * high);
    const Weighed with = weigh(path, middle);
    best = std::max(best, with.step);
    (with.bytes > memory_ ? low : high) = middle;
  }
  return best;
}

Bound WeightedSums::least_step(BoundBudget& budget) const {
  if (choices_.empty() || !budget.take(all_choices_)) return {};
  const Weighed without = weigh(0, 0);
  if (without.bytes <= memory_ && without.path <= without.step) return {without.step, "work over all devices"};
  double low = 0, high = 1, best = best_step(0, budget);
  constexpr double kRatio = 1 / std::numbers::phi;
  double left = high - kRatio * (high - low), right = low + kRatio * (high - low);
  double at_left = best_step(left, budget), at_right = best_step(right, budget);
  for (int i = 0; i < kPathSteps && !budget.spent(); ++i) {
    best = std::max({best, at_left, at_right});
    if (at_left > at_right) {
      high = std::exchange(right, left);
      at_right = at_left;
      left = high - kRatio * (high - low);
      at_left = best_step(left, budget);
    } else {
      low = std::exchange(left, right);
      at_left = at_right;
      right = low + kRatio * (high - low);
      at_right = best_step(right, budget);
    }
  }
  return {std::max({best, at_left, at_right}), "work, memory and one micro-batch together"};
}

}  // namespace rannc::partition
