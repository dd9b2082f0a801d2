// Computes device positions from which a suffix of the blocks can be covered (stage DP for unequal devices and links).
//
// reach[s][a] = set of positions p such that blocks a..k fit in s stages on consecutive devices p, p + 1, …, with idle
// devices only after the last stage. Positions are bits. A stage on [p, q) is priced by its class: share, kinds, least
// memory and the link between p - 1 and p.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "partition/stages/covers/cover.h"

namespace rannc::partition {
namespace {

/// Properties of a group of devices that determine its price.
struct GroupClass {
  size_t share = 0;
  std::vector<uint32_t> kinds;
  double memory = 0;
  Link link;
};

class PositionalCover final : public CoverFinder {
 public:
  PositionalCover(const StageProblem& problem, const RangeCosts& ranges, uint64_t micro_batches, uint32_t devices,
                  uint32_t copies)
      : CoverFinder(micro_batches),
        prices_(problem, ranges, micro_batches, devices, copies),
        ranges_(ranges),
        devices_(devices),
        words_((devices + 64) / 64),
        choices_(recompute_choices(problem.recompute)),
        fixed_(problem.constraints.replicas) {
    if (!prices_.shares().empty()) classify(problem);
  }

  void set_memory(std::optional<double> bytes) override { forced_memory_ = bytes; }

  double least_step_ns() const override { return prices_.least_step_ns(devices_); }

  std::optional<Cover> find(const TimeLimits& limits, StageCount count) override {
    limits_ = limits;
    const uint32_t k = ranges_.blocks();
    stages_ = std::min({count.most, k, devices_});
    if (prices_.shares().empty() || count.least > stages_) return std::nullopt;
    reach_.assign(static_cast<size_t>(stages_ + 1) * (k + 1) * words_, 0);
    for (uint32_t p = 0; p <= devices_; ++p) set(bits(0, k), p);
    for (uint32_t a = k; a-- > 0;) {
      if (stopped()) return std::nullopt;
      if (a == 0 || ranges_.cut_allowed(a)) fill(a);
    }
    for (uint32_t s = count.least; s <= stages_; ++s) {
      if (test(bits(s, 0), 0)) return trace(s);
    }
    return std::nullopt;
  }

 private:
  struct Fit {
    uint32_t farthest = 0;  ///< from the end; 0: does not fit
    bool recompute = false;
    StageNeed need;
  };

  void classify(const StageProblem& problem) {
    const Cluster& cluster = problem.cluster;
    class_of_.assign(static_cast<size_t>(devices_ + 1) * (devices_ + 1), UINT32_MAX);
    std::map<std::tuple<size_t, std::vector<uint32_t>, double, double, double>, uint32_t> known;
    for (uint32_t p = 0; p < devices_; ++p) {
      GroupClass group;
      group.memory = std::numeric_limits<double>::infinity();
      group.link = p == 0 ? Link{1, 0} : cluster.link(DeviceId(p - 1), DeviceId(p));
      for (uint32_t q = p + 1; q <= devices_; ++q) {
        const uint32_t kind = cluster.devices[q - 1].kind;
        const auto place = std::lower_bound(group.kinds.begin(), group.kinds.end(), kind);
        if (place == group.kinds.end() || *place != kind) group.kinds.insert(place, kind);
        group.memory = std::min(group.memory, memory_of(problem, DeviceId(q - 1)));
        group.share = prices_.share_of(q - p);
        if (group.share == prices_.shares().size()) break;
        const auto key =
            std::make_tuple(group.share, group.kinds, group.memory, group.link.bytes_per_second, group.link.latency_ns);
        const auto [entry, fresh] = known.emplace(key, static_cast<uint32_t>(classes_.size()));
        if (fresh) classes_.push_back(group);
        class_of_[static_cast<size_t>(p) * (devices_ + 1) + q] = entry->second;
      }
    }
  }

  uint32_t class_of(uint32_t p, uint32_t q) const { return class_of_[static_cast<size_t>(p) * (devices_ + 1) + q]; }
  uint64_t* bits(uint32_t s, uint32_t a) {
    return reach_.data() + (static_cast<size_t>(s) * (ranges_.blocks() + 1) + a) * words_;
  }
  static void set(uint64_t* bits, uint32_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
  static bool test(const uint64_t* bits, uint32_t i) { return (bits[i / 64] >> (i % 64)) & 1; }

  StageNeed need_of(uint32_t a, uint32_t b, const GroupClass& group, bool recompute) const {
    StageNeed most;
    for (const uint32_t kind : group.kinds) {
      const StageNeed need = prices_.need(a, b, group.share, kind, group.link, recompute);
      most.forward_ns = std::max(most.forward_ns, need.forward_ns);
      most.backward_ns = std::max(most.backward_ns, need.backward_ns);
    }
    return most;
  }

  /// Returns the choice that fits farthest from the end, the faster one first.
  Fit fit(uint32_t a, uint32_t b, const GroupClass& group) const {
    Fit best;
    for (const bool recompute : choices_) {
      const StageNeed need = need_of(a, b, group, recompute);
      if (!limits_.allow(need)) continue;
      const uint32_t farthest =
          prices_.farthest_from_end(a, b, group.share, recompute, forced_memory_.value_or(group.memory));
      if (farthest > best.farthest) best = {farthest, recompute, need};
    }
    return best;
  }

  void fill(uint32_t a) {
    const uint32_t k = ranges_.blocks();
    std::vector<uint32_t> farthest(classes_.size());
    std::vector<uint64_t> mask(words_);
    for (uint32_t b = a + 1; b <= k; ++b) {
      if (b < k && !ranges_.cut_allowed(b)) continue;
      bool any = false;
      for (size_t c = 0; c < classes_.size(); ++c) {
        farthest[c] = fit(a, b, classes_[c]).farthest;
        any |= farthest[c] > 0;
      }
      if (!any) continue;
      const uint32_t first = b == k ? 1 : 2, last = b == k ? 1 : std::min(stages_, k - b + 1);
      for (uint32_t p = a == 0 ? 0 : 1; p < (a == 0 ? 1 : devices_); ++p) extend(a, b, p, first, last, farthest, mask);
    }
  }

  /// Marks position p for blocks a.. if a stage [a, b) from p leads to a reachable end.
  void extend(uint32_t a, uint32_t b, uint32_t p, uint32_t first, uint32_t last, const std::vector<uint32_t>& farthest,
              std::vector<uint64_t>& mask) {
    uint32_t valid_to = 0;  // the mask is valid for stages up to this one
    for (uint32_t s = first; s <= last; ++s) {
      if (!ranges_.stage_allowed(a, b, s)) continue;
      if (!fixed_.empty() || s > valid_to) valid_to = build_mask(p, s, farthest, mask);
      const uint64_t* rest = bits(s - 1, b);
      for (size_t w = 0; w < words_; ++w) {
        if (mask[w] & rest[w]) {
          set(bits(s, a), p);
          break;
        }
      }
    }
  }

  uint32_t build_mask(uint32_t p, uint32_t s, const std::vector<uint32_t>& farthest, std::vector<uint64_t>& mask) {
    std::fill(mask.begin(), mask.end(), 0);
    uint32_t valid_to = UINT32_MAX;
    for (uint32_t q = p + 1; q <= devices_; ++q) {
      const uint32_t group = class_of(p, q);
      if (group == UINT32_MAX) break;
      if (farthest[group] < s) continue;
      if (!fixed_.empty() && (s > fixed_.size() || fixed_[fixed_.size() - s] != q - p)) continue;
      valid_to = std::min(valid_to, farthest[group]);
      set(mask.data(), q);
    }
    return valid_to;
  }

  Cover trace(uint32_t s) {
    Cover cover;
    uint32_t a = 0, p = 0;
    for (; s > 0; --s) {
      const CoveredStage stage = step(a, p, s);
      cover.forward_ns = std::max(cover.forward_ns, stage.need.forward_ns);
      cover.backward_ns = std::max(cover.backward_ns, stage.need.backward_ns);
      a = stage.end;
      p = stage.to;
      cover.stages.push_back(stage);
    }
    return cover;
  }

  CoveredStage step(uint32_t a, uint32_t p, uint32_t s) {
    const uint32_t k = ranges_.blocks();
    for (uint32_t b = a + 1; b <= k; ++b) {
      if ((b < k && !ranges_.cut_allowed(b)) || !ranges_.stage_allowed(a, b, s)) continue;
      for (uint32_t q = p + 1; q <= devices_; ++q) {
        const uint32_t group = class_of(p, q);
        if (group == UINT32_MAX) break;
        if (!test(bits(s - 1, b), q)) continue;
        if (!fixed_.empty() && (s > fixed_.size() || fixed_[fixed_.size() - s] != q - p)) continue;
        const Fit found = fit_at(a, b, classes_[group], s);
        if (found.farthest >= s) return {a, b, p, q, found.recompute, found.need};
      }
    }
    RANNC_CHECK(false) << "no step from block " << a << ", device " << p << " with " << s << " stages";
    return {};
  }

  /// Returns the faster choice that fits this far from the end.
  Fit fit_at(uint32_t a, uint32_t b, const GroupClass& group, uint32_t s) const {
    for (const bool recompute : choices_) {
      const StageNeed need = need_of(a, b, group, recompute);
      const double memory = forced_memory_.value_or(group.memory);
      const uint32_t farthest = prices_.farthest_from_end(a, b, group.share, recompute, memory);
      if (limits_.allow(need) && farthest >= s) return {farthest, recompute, need};
    }
    return {};
  }

  StagePrices prices_;
  const RangeCosts& ranges_;
  uint32_t devices_;
  size_t words_;
  std::vector<bool> choices_;
  std::vector<uint32_t> fixed_;
  std::optional<double> forced_memory_;
  std::vector<GroupClass> classes_;
  std::vector<uint32_t> class_of_;  ///< [from][to], UINT32_MAX: some replica has no sample
  TimeLimits limits_;
  uint32_t stages_ = 0;
  std::vector<uint64_t> reach_;  ///< [stages][first block][word]
};

}  // namespace

std::unique_ptr<CoverFinder> positional_cover(const StageProblem& problem, const RangeCosts& ranges,
                                              uint64_t micro_batches, uint32_t devices, uint32_t copies) {
  return std::make_unique<PositionalCover>(problem, ranges, micro_batches, devices, copies);
}

}  // namespace rannc::partition
