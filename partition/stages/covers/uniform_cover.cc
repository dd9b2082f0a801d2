// Computes the least devices that cover a suffix of the blocks (stage DP for equal devices; thresholds replace
// Algorithm 1's V).
//
// devices[a][s] = least devices for blocks a..k in s stages, over b: need(a, b, s) + devices[b][s - 1], where need is
// the least replica count that keeps time and memory within the limits. Stages are counted from the end, so that the
// micro-batches in flight of the schedule are a function of s. O(k^2 (1 + S / 16)) with 16-bit counts in a contiguous
// inner loop.
//
// First without stage counts and memory, in O(k^2): the least devices before and after each block. A range whose stage
// needs more than what these leave of the devices is in no cover, so that near the least limits few ranges are left.
#include <algorithm>
#include <limits>

#include "partition/stages/covers/cover.h"

namespace rannc::partition {
namespace {

template <class Count>
class UniformCover final : public CoverFinder {
 public:
  UniformCover(const StageProblem& problem, const RangeCosts& ranges, uint64_t micro_batches)
      : CoverFinder(micro_batches),
        prices_(problem, ranges, micro_batches, problem.cluster.size(), 1),
        ranges_(ranges),
        devices_(problem.cluster.size()),
        none_(static_cast<Count>(devices_ + 1)),
        kind_(problem.cluster.devices.front().kind),
        link_(link_of(problem.cluster)),
        own_memory_(memory_of(problem, DeviceId(0))),
        memory_(own_memory_),
        choices_(recompute_choices(problem.recompute)),
        fixed_(problem.constraints.replicas) {}

  void set_memory(std::optional<double> bytes) override { memory_ = bytes.value_or(own_memory_); }

  double least_step_ns() const override { return prices_.least_step_ns(devices_); }

  std::optional<Cover> find(const TimeLimits& limits, StageCount count) override {
    limits_ = limits;
    const uint32_t k = ranges_.blocks();
    stages_ = std::min(count.most, k);
    if (prices_.shares().empty() || count.least > stages_) return std::nullopt;
    least_.assign(static_cast<size_t>(k + 1) * (stages_ + 1), none_);
    row(k)[0] = 0;
    if (!bound_both_sides()) return std::nullopt;
    for (uint32_t a = k; a-- > 0;) {
      if (before_[a] + after_[a] <= devices_ && (a == 0 || ranges_.cut_allowed(a))) fill(a);
    }
    for (uint32_t s = count.least; s <= stages_; ++s) {
      if (row(0)[s] < none_) return trace(s);
    }
    return std::nullopt;
  }

 private:
  static Link link_of(const Cluster& cluster) {
    return cluster.size() > 1 ? cluster.link(DeviceId(0), DeviceId(1)) : Link{1, 0};
  }
  Count* row(uint32_t a) { return least_.data() + static_cast<size_t>(a) * (stages_ + 1); }

  /// Index of the least entry of the share list that meets the time limits, starting from a guess; shares().size():
  /// none.
  size_t fit_time(uint32_t a, uint32_t b, bool recompute, size_t guess) const {
    const size_t count = prices_.shares().size();
    size_t i = std::min(guess, count - 1);
    if (!limits_.allow(prices_.need(a, b, i, kind_, link_, recompute))) {
      do {
        ++i;
      } while (i < count && !limits_.allow(prices_.need(a, b, i, kind_, link_, recompute)));
      return i;
    }
    while (i > 0 && limits_.allow(prices_.need(a, b, i - 1, kind_, link_, recompute))) --i;
    return i;
  }

  /// Whether no range from a to b or beyond can meet the limits.
  bool hopeless(uint32_t a, uint32_t b) const {
    const size_t last = prices_.shares().size() - 1;
    const double forward = prices_.forward(a, b, last, kind_), backward = prices_.backward(a, b, last, kind_);
    return forward > limits_.forward_ns || backward > limits_.backward_ns || forward + backward > limits_.both_ns ||
           ranges_.resident(a, b) > memory_;
  }

  /// Finds lower bounds of the devices before and after each block, and the shares of `fastest_`. Returns whether the
  /// devices may suffice.
  bool bound_both_sides() {
    const uint32_t k = ranges_.blocks();
    before_.assign(k + 1, devices_ + 1);
    after_.assign(k + 1, devices_ + 1);
    first_.assign(k + 1, 0);
    fastest_.clear();
    before_[0] = after_[k] = 0;
    const auto least = [&](size_t share) {
      if (!fixed_.empty()) return 1u;
      return share < prices_.shares().size() ? prices_.shares()[share].replicas : devices_ + 1;
    };
    for (uint32_t a = 0; a < k; ++a) {
      first_[a] = fastest_.size();
      if (a > 0 && !ranges_.cut_allowed(a)) continue;
      size_t guess = 0;
      for (uint32_t b = a + 1; b <= k && !hopeless(a, b); ++b) {
        const bool cut = b == k || ranges_.cut_allowed(b);
        if (cut) guess = fit_time(a, b, choices_.front(), guess);
        fastest_.push_back(cut ? static_cast<uint32_t>(guess) : UINT32_MAX);
        if (cut) before_[b] = std::min(before_[b], before_[a] + least(guess));
      }
    }
    first_[k] = fastest_.size();
    for (uint32_t a = k; a-- > 0;) {
      for (size_t i = first_[a]; i < first_[a + 1]; ++i) {
        const auto b = static_cast<uint32_t>(a + 1 + (i - first_[a]));
        if (fastest_[i] != UINT32_MAX) after_[a] = std::min(after_[a], least(fastest_[i]) + after_[b]);
      }
    }
    return after_[0] <= devices_;
  }

  void fill(uint32_t a) {
    const uint32_t k = ranges_.blocks();
    size_t guess = 0;
    for (uint32_t b = a + 1; b <= k && b - a <= first_[a + 1] - first_[a]; ++b) {
      const uint32_t fastest = fastest_[first_[a] + (b - a - 1)];
      if (fastest >= prices_.shares().size()) continue;  // no cut, or too slow, also with recompute
      const uint32_t replicas = fixed_.empty() ? prices_.shares()[fastest].replicas : 1;
      if (before_[a] + replicas + after_[b] > devices_) continue;
      guess = std::max<size_t>(guess, fastest);
      for (const bool recompute : choices_) {
        size_t share = fastest;
        if (recompute != choices_.front()) share = guess = fit_time(a, b, recompute, guess);
        if (share == prices_.shares().size()) continue;
        if (relax(a, b, recompute, share)) break;  // recompute would not save a device
      }
    }
  }

  /// Lowers each count to that of another row and `more`. The compiler makes this one instruction for several counts.
  static void take_least(Count* __restrict to, const Count* __restrict from, Count more, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const Count sum = static_cast<Count>(from[i] + more);
      to[i] = sum < to[i] ? sum : to[i];
    }
  }

  /// Returns whether memory never required more devices than time, as far as devices suffice.
  bool relax(uint32_t a, uint32_t b, bool recompute, size_t share) {
    const uint32_t k = ranges_.blocks();
    const uint32_t first = b == k ? 1 : 2, last = b == k ? 1 : std::min(stages_, k - b + 1);
    if (first > last) return true;
    if (!fixed_.empty()) return relax_fixed(a, b, recompute, first, last);
    uint32_t from_end = first;
    const bool pinned = ranges_.has_pins();
    const uint32_t most = devices_ - before_[a] - after_[b];
    if (prices_.shares()[share].replicas > most) return false;
    for (size_t i = share; from_end <= last; ++i) {
      uint32_t reach = 0;
      i = first_that_fits(a, b, recompute, i, from_end, reach);
      if (i == prices_.shares().size() || prices_.shares()[i].replicas > most) break;
      reach = std::min(last, reach);
      const Count more = static_cast<Count>(prices_.shares()[i].replicas);
      if (pinned) {
        for (uint32_t s = from_end; s <= reach; ++s) {
          if (ranges_.stage_allowed(a, b, s)) take_least(row(a) + s, row(b) + s - 1, more, 1);
        }
      } else {
        take_least(row(a) + from_end, row(b) + from_end - 1, more, reach - from_end + 1);
      }
      if (i == share && reach == last) return true;
      from_end = reach + 1;
    }
    return false;
  }

  /// Returns the first share from i on that fits memory this far from the end, and the largest distance at which it
  /// fits. Smaller shares never hold more.
  size_t first_that_fits(uint32_t a, uint32_t b, bool recompute, size_t i, uint32_t from_end, uint32_t& reach) const {
    size_t end = prices_.shares().size();
    if (i == end) return i;
    reach = prices_.farthest_from_end(a, b, i, recompute, memory_);
    if (reach >= from_end) return i;
    const auto fits = [&](size_t at) { return prices_.peak_bytes(a, b, at, recompute, from_end) <= memory_; };
    if (!fits(end - 1)) return end;
    size_t low = i;  // does not fit
    --end;           // fits, as the last that was found to
    while (end - low > 1) {
      const size_t middle = low + (end - low) / 2;
      (fits(middle) ? end : low) = middle;
    }
    reach = prices_.farthest_from_end(a, b, end, recompute, memory_);
    return end;
  }

  bool relax_fixed(uint32_t a, uint32_t b, bool recompute, uint32_t first, uint32_t last) {
    for (uint32_t s = first; s <= std::min<uint32_t>(last, static_cast<uint32_t>(fixed_.size())); ++s) {
      const uint32_t replicas = fixed_[fixed_.size() - s];
      if (replicas > devices_ || !ranges_.stage_allowed(a, b, s) || !fits(a, b, recompute, replicas, s)) continue;
      const uint32_t sum = row(b)[s - 1] + replicas;
      row(a)[s] = static_cast<Count>(std::min<uint32_t>(row(a)[s], sum));
    }
    return false;
  }

  bool fits(uint32_t a, uint32_t b, bool recompute, uint32_t replicas, uint32_t from_end) const {
    const size_t share = prices_.share_of(replicas);
    return share < prices_.shares().size() && limits_.allow(prices_.need(a, b, share, kind_, link_, recompute)) &&
           prices_.farthest_from_end(a, b, share, recompute, memory_) >= from_end;
  }

  /// Follows the least counts from block 0 with s stages.
  Cover trace(uint32_t s) {
    Cover cover;
    uint32_t a = 0, at = 0;
    for (; s > 0; --s) {
      const CoveredStage stage = step(a, s, at);
      cover.forward_ns = std::max(cover.forward_ns, stage.need.forward_ns);
      cover.backward_ns = std::max(cover.backward_ns, stage.need.backward_ns);
      a = stage.end;
      at = stage.to;
      cover.stages.push_back(stage);
    }
    return cover;
  }

  CoveredStage step(uint32_t a, uint32_t s, uint32_t at) {
    const uint32_t k = ranges_.blocks();
    for (uint32_t b = a + 1; b <= k; ++b) {
      const uint32_t rest = row(b)[s - 1], here = row(a)[s];
      if (rest >= here || (b < k && !ranges_.cut_allowed(b)) || !ranges_.stage_allowed(a, b, s)) continue;
      for (const bool recompute : choices_) {
        if (!fits(a, b, recompute, here - rest, s)) continue;
        const size_t share = prices_.share_of(here - rest);
        return {a, b, at, at + here - rest, recompute, prices_.need(a, b, share, kind_, link_, recompute)};
      }
    }
    RANNC_CHECK(false) << "no step from block " << a << " with " << s << " stages";
    return {};
  }

  StagePrices prices_;
  const RangeCosts& ranges_;
  uint32_t devices_;
  Count none_;
  uint32_t kind_;
  Link link_;
  double own_memory_, memory_;
  std::vector<bool> choices_;
  std::vector<uint32_t> fixed_;
  TimeLimits limits_;
  uint32_t stages_ = 0;
  std::vector<Count> least_;              ///< [first block][stages]
  std::vector<uint32_t> before_, after_;  ///< by block: least devices, whatever the stages and their memory
  std::vector<size_t> first_;             ///< by first block: its ranges in `fastest_`
  std::vector<uint32_t> fastest_;         ///< by range: share that meets the limits with the first of `choices_`
};

}  // namespace

std::vector<bool> recompute_choices(RecomputeRule rule) {
  switch (rule) {
    case RecomputeRule::kNever:
      return {false};
    case RecomputeRule::kAlways:
      return {true};
    case RecomputeRule::kChoose:
      return {false, true};
  }
  return {false};
}

std::unique_ptr<CoverFinder> uniform_cover(const StageProblem& problem, const RangeCosts& ranges,
                                           uint64_t micro_batches) {
  // Two counts of at most devices + 1 must not overflow when added.
  if (problem.cluster.size() < 32767) {
    return std::make_unique<UniformCover<uint16_t>>(problem, ranges, micro_batches);
  }
  return std::make_unique<UniformCover<uint32_t>>(problem, ranges, micro_batches);
}

}  // namespace rannc::partition
