#include "partition/stages/covers/threshold_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

namespace rannc::partition {
namespace {

constexpr double kStep = 1e-12;  ///< relative; two objectives closer than this count as equal
constexpr double kClose = 2e-3;  ///< relative; for a bound this close the final query is made at once

/// Covers of one finder with stages in [least, most] and largest forward time in [low, high]; none is below `bound`.
struct Box {
  double bound = 0;
  size_t finder = 0;
  uint32_t least = 1, most = 1;
  double low = 0, high = kInfinity;
  bool fresh = true;  ///< not queried yet
  /// Ties go to the finder given last: more micro-batches, whose queries are faster.
  auto key() const { return std::make_tuple(bound, SIZE_MAX - finder, least, low, most, high); }
  bool operator<(const Box& other) const { return key() < other.key(); }
};

class Search {
 public:
  Search(const std::vector<CoverFinder*>& finders, const SearchBudget& budget)
      : finders_(finders), queries_(budget.queries), stop_(budget.stop) {}

  std::optional<ThresholdAnswer> run(StageCount count) {
    for (size_t f = 0; f < finders_.size(); ++f) {
      const double steps = static_cast<double>(finders_[f]->micro_batches() + count.least - 1);
      open_.insert({steps * finders_[f]->least_step_ns(), f, count.least, count.most, 0, kInfinity, true});
    }
    while (!open_.empty()) {
      const Box box = *open_.begin();
      if (top() <= 0 || box.bound >= top() * (1 - 2 * kStep) || queries_ == 0) break;
      if (best_ && stop_.stop_requested()) break;
      open_.erase(open_.begin());
      request(box);
    }
    if (!best_) return std::nullopt;
    best_->lower_bound = open_.empty() ? top() : std::min(top(), open_.begin()->bound);
    if (best_->lower_bound >= top() * (1 - 2 * kStep)) best_->lower_bound = top();
    return std::move(best_);
  }

 private:
  double top() const { return best_ ? best_->objective : kInfinity; }

  /// Longest time of one pipeline step for which the whole meets the target.
  double per_step(const Box& box, double target) const {
    return target / static_cast<double>(finders_[box.finder]->micro_batches() + box.least - 1);
  }

  /// A new box must first show that it can win at all; then the target bisects the open interval.
  double target_of(const Box& box) const {
    const double least_gain = top() * (1 - kStep);
    if (!best_ || box.fresh || box.bound > top() * (1 - kClose)) return least_gain;
    return box.bound > 0 ? std::sqrt(box.bound * top()) : top() / 4;
  }

  void request(Box box) {
    --queries_;
    const double target = target_of(box), limit = per_step(box, target);
    const double high = std::min(box.high, limit);
    CoverFinder& finder = *finders_[box.finder];
    if (best_) finder.stop_on(stop_);
    auto cover = finder.find({high, limit - box.low, limit}, {box.least, box.most});
    finder.stop_on({});
    if (finder.interrupted()) {
      open_.insert(box);  // as if it had not been queried
      return;
    }
    box.fresh = false;
    if (!cover) {
      box.bound = target;
      if (target < top() * (1 - 2 * kStep)) open_.insert(box);
      return;
    }
    const uint32_t stages = static_cast<uint32_t>(cover->stages.size());
    const double forward = cover->forward_ns, backward = cover->backward_ns;
    const double value = fill_drain_ns(finder.micro_batches(), stages, forward, backward);
    if (value < top()) best_ = ThresholdAnswer{box.finder, std::move(*cover), value, value};
    if (stages > box.least) {
      // Fewer stages admit no cover even under these limits, which are looser than their own.
      Box fewer = box;
      fewer.most = stages - 1;
      fewer.bound = std::max(box.bound, target);
      box.least = stages;
      if (fewer.bound < top() * (1 - 2 * kStep)) open_.insert(fewer);
      open_.insert(box);
    } else if (value <= target) {
      open_.insert(box);
    } else {
      split(box, limit, forward, backward);
    }
  }

  /// The cover misses the target with the least stage count: exclude it from both halves of the forward range.
  void split(const Box& box, double limit, double forward, double backward) {
    if (box.least < box.most) {
      Box more = box;
      more.least = box.least + 1;
      open_.insert(more);
    }
    Box low = box, high = box;
    low.most = high.most = box.least;
    low.high = high.low = (limit - backward + forward) / 2;
    if (!(low.high < forward && limit - high.low < backward)) return;  // closer than rounding
    open_.insert(low);
    open_.insert(high);
  }

  const std::vector<CoverFinder*>& finders_;
  uint64_t queries_;
  std::stop_token stop_;
  std::set<Box> open_;
  std::optional<ThresholdAnswer> best_;
};

}  // namespace

std::optional<ThresholdAnswer> minimise_fill_drain(const std::vector<CoverFinder*>& finders, StageCount count,
                                                   SearchBudget budget) {
  return Search(finders, budget).run(count);
}

}  // namespace rannc::partition
