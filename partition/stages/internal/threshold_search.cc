#include "partition/stages/internal/threshold_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rannc::partition {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kStep = 1e-12;  ///< relative; two objectives closer than this count as equal

struct Box {
  uint32_t least, most;  ///< stages
  double low, high;      ///< limit of the largest forward time
};

/// One finder's share of the search.
class Search {
 public:
  Search(CoverFinder& finder, StageCount count, uint64_t& queries) : finder_(finder), count_(count), queries_(queries) {}

  double value(const Cover& cover) const {
    return fill_drain_ns(finder_.micro_batches(), cover.stages.size(), cover.forward_ns, cover.backward_ns);
  }

  /// A cover of at most `target`, or nothing: then none exists, unless the budget is spent.
  std::optional<Cover> reach(double target) {
    std::vector<Box> boxes{{count_.least, count_.most, 0, kInfinity}};
    while (!boxes.empty()) {
      if (queries_ == 0) return std::nullopt;
      --queries_;
      const Box box = boxes.back();
      boxes.pop_back();
      const double limit = per_step(target, box.least);
      const double high = std::min(box.high, limit);
      auto cover = finder_.find({high, limit - box.low, limit}, {box.least, box.most});
      if (!cover) continue;
      if (value(*cover) <= target) return cover;
      split(box, high, *cover, limit, boxes);
    }
    return std::nullopt;
  }

 private:
  /// What one step of the pipeline may take so that the whole meets the target.
  double per_step(double target, uint32_t stages) const {
    return target / static_cast<double>(finder_.micro_batches() + stages - 1);
  }

  void split(const Box& box, double high, const Cover& cover, double limit, std::vector<Box>& boxes) const {
    const uint32_t stages = static_cast<uint32_t>(cover.stages.size());
    if (stages > box.least) {
      // No cover has fewer stages under these limits; with as many as this one the limits are tighter.
      boxes.push_back({stages, box.most, box.low, box.high});
      return;
    }
    if (box.least < box.most) boxes.push_back({box.least + 1, box.most, box.low, box.high});
    const double middle = (limit - cover.backward_ns + cover.forward_ns) / 2;
    if (!(middle < cover.forward_ns && limit - middle < cover.backward_ns)) return;  // closer than rounding
    boxes.push_back({box.least, box.least, middle, high});
    boxes.push_back({box.least, box.least, box.low, middle});
  }

  CoverFinder& finder_;
  StageCount count_;
  uint64_t& queries_;
};

}  // namespace

std::optional<ThresholdAnswer> minimise_fill_drain(const std::vector<CoverFinder*>& finders, StageCount count,
                                                   SearchBudget budget) {
  std::optional<ThresholdAnswer> best;
  double refuted = kInfinity;  // least target that any finder left unproved because the budget was spent
  for (size_t f = 0; f < finders.size(); ++f) {
    Search search(*finders[f], count, budget.queries);
    double low = 0;
    bool fine = true;  // alternate between the smallest step and bisection
    while (!best || best->objective > 0) {
      const double top = best ? best->objective : kInfinity;
      double target = top;
      if (best) target = fine || low > top * (1 - 1e-9) ? top * (1 - kStep) : (low > 0 ? std::sqrt(low * top) : top / 4);
      auto cover = search.reach(target);
      if (cover) {
        const double objective = search.value(*cover);
        // A target just below is worth a try again only when it was met with little to spare.
        fine = best && fine && objective < top * 0.99;
        best = ThresholdAnswer{f, std::move(*cover), objective, objective};
        continue;
      }
      if (budget.queries == 0) {
        refuted = std::min(refuted, low);
        break;
      }
      if (!best || target >= best->objective * (1 - 2 * kStep)) break;
      low = target;
      fine = !fine;
    }
  }
  if (best) best->lower_bound = std::min(best->objective, refuted);
  return best;
}

}  // namespace rannc::partition
