// Bounds the largest load by the stretches of one chain.
//
// Units of the chain depend on each other in order, so every down-set contains its first j units for some j: its class.
// A device between a cut of class i and one of class j > i holds a set S that contains the chain's units i … j-1 and
// all units between them, but not unit i-1 and what precedes it, nor unit j and what follows it. Minimum cuts over all
// such S give
//   load(i, j): the least work(S) + cost of the values with pins in S and outside,
//   paid(i, j): the least cost of those values alone.
// A device without a unit of the chain loads 0 or more. All devices together load the total work plus what each of them
// pays. So T is possible only if a path from class 0 to the last over stretches with load <= T has total work + sum of
// paid <= devices * T, and likewise for every first few devices. Each device counts what it pays itself, so no value is
// counted more often than it is paid, however many cuts it crosses.
#include "partition/reference/stretch_bound.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ir/base/flow_network.h"
#include "partition/reference/closure.h"

namespace rannc::partition {

using FlowNetwork = ir::FlowNetwork<double>;
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kBoundTolerance = 1e-11;  // relative to the total work
constexpr double kRounding = 1 + 1e-9;     // of sums of loads

/// Minimum cuts around sets that contain some units and exclude others.
class SetCut {
 public:
  enum class Place : uint8_t { kFree, kIn, kOut };

  explicit SetCut(const SplitProblem& problem) : problem_(problem), node_(problem.units()) {}

  void fix(std::vector<Place> place) {
    place_ = std::move(place);
    nodes_ = 2;
    inside_ = crossing_ = 0;
    values_.clear();
    for (uint32_t u = 0; u < problem_.units(); ++u) {
      node_[u] = place_[u] == Place::kIn ? kSource : place_[u] == Place::kOut ? kSink : nodes_++;
      if (place_[u] == Place::kIn) inside_ += problem_.work[u];
    }
    for (uint32_t e = 0; e < problem_.cost.size(); ++e) {
      bool in = false, out = false, open = false;
      for (uint32_t pin : problem_.pins.row(e)) {
        in |= place_[pin] == Place::kIn;
        out |= place_[pin] == Place::kOut;
        open |= place_[pin] == Place::kFree;
      }
      if (in && out) crossing_ += problem_.cost[e];
      if (open && !(in && out)) values_.push_back(e);
    }
  }
  double inside() const { return inside_; }  ///< work of the units that are fixed in the set

  /// Returns the least cost of the values between the set and the rest, plus the work of the set if `with_work`.
  double solve(bool with_work, double tolerance) {
    network_.reset(static_cast<uint32_t>(nodes_ + 2 * values_.size()));
    for (uint32_t u = 0; u < problem_.units() && with_work; ++u) {
      if (place_[u] == Place::kFree) network_.add_edge(node_[u], kSink, problem_.work[u]);
    }
    uint32_t next = nodes_;
    for (uint32_t e : values_) {
      const uint32_t enter = next++, leave = next++;
      network_.add_edge(enter, leave, problem_.cost[e]);
      for (uint32_t pin : problem_.pins.row(e)) {
        if (node_[pin] != kSink) network_.add_edge(node_[pin], enter, FlowNetwork::kUncuttable);
        if (node_[pin] != kSource) network_.add_edge(leave, node_[pin], FlowNetwork::kUncuttable);
      }
    }
    return network_.min_cut(kSource, kSink, tolerance) + crossing_ + (with_work ? inside_ : 0);
  }

 private:
  static constexpr uint32_t kSource = 0, kSink = 1;
  const SplitProblem& problem_;
  std::vector<Place> place_;
  std::vector<uint32_t> node_, values_;
  uint32_t nodes_ = 2;
  double inside_ = 0, crossing_ = 0;
  FlowNetwork network_;
};

class Stretches {
 public:
  Stretches(const SplitProblem& problem, size_t most)
      : problem_(problem),
        before_(problem, Closure::Side::kPredecessors),
        after_(problem, Closure::Side::kSuccessors),
        chain_(longest_chain(problem)),
        total_(problem.total_work()) {
    thin_out(most);
    for (size_t j = 0; j <= chain_.size(); ++j) {
      least_work_.push_back(j > 0 ? before_.work(chain_[j - 1]) + problem.work[chain_[j - 1]] : 0);
      most_work_.push_back(total_ - (j < chain_.size() ? after_.work(chain_[j]) + problem.work[chain_[j]] : 0));
    }
  }

  /// Prices all stretches that may load `upper` or less. Returns false if stopped.
  bool price(double upper, const std::stop_token& stop) {
    SetCut cut(problem_);
    stretches_.resize(chain_.size());
    for (size_t i = 0; i < chain_.size(); ++i) {
      for (size_t j = i + 1; j <= chain_.size(); ++j) {
        if (stop.stop_requested()) return false;
        cut.fix(places(i, j));
        if (cut.inside() > upper) break;  // longer ones hold more
        const double tolerance = kBoundTolerance * total_;
        const double load = cut.solve(true, tolerance);
        stretches_[i].push_back({load, load > upper ? kInfinity : cut.solve(false, tolerance)});
      }
    }
    return true;
  }

  bool possible(uint32_t devices, double limit) const {
    // paid[j]: least sum over the first s devices when the last of their cuts is in class j.
    std::vector<double> paid(chain_.size() + 1, kInfinity), before;
    paid[0] = 0;
    for (uint32_t s = 1; s <= devices; ++s) {
      before = paid;
      for (size_t i = 0; i < chain_.size(); ++i) {
        if (before[i] == kInfinity) continue;
        for (size_t k = 0; k < stretches_[i].size(); ++k) {
          if (stretches_[i][k].load <= limit) {
            paid[i + 1 + k] = std::min(paid[i + 1 + k], before[i] + stretches_[i][k].paid);
          }
        }
      }
      for (size_t j = 0; j < paid.size(); ++j) {
        if (least_work_[j] + paid[j] > limit * s * kRounding) paid[j] = kInfinity;
        if (total_ - most_work_[j] > limit * (devices - s) * kRounding) paid[j] = kInfinity;
      }
    }
    return total_ + paid.back() <= limit * devices * kRounding;
  }

 private:
  struct Stretch {
    double load = 0, paid = 0;
  };

  /// Keeps, of every few units, the one with the most dependences, so that about `most` stretches are left.
  void thin_out(size_t most) {
    const size_t length = chain_.size();
    size_t step = 1;
    while ((length / step) * (length / step) / 4 > most) ++step;
    const auto related = [this](uint32_t u) { return before_.work(u) + after_.work(u) + problem_.work[u]; };
    std::vector<uint32_t> kept;
    for (size_t i = 0; i < length; i += step) {
      const auto end = chain_.begin() + static_cast<std::ptrdiff_t>(std::min(length, i + step));
      kept.push_back(*std::max_element(chain_.begin() + static_cast<std::ptrdiff_t>(i), end,
                                       [&](uint32_t a, uint32_t b) { return related(a) < related(b); }));
    }
    chain_ = std::move(kept);
  }

  std::vector<SetCut::Place> places(size_t i, size_t j) const {
    using Place = SetCut::Place;
    const auto before = [this](uint32_t u, uint32_t v) { return u == v || before_.has(v, u); };
    std::vector<Place> places(problem_.units(), Place::kFree);
    for (uint32_t u = 0; u < problem_.units(); ++u) {
      if (before(chain_[i], u) && before(u, chain_[j - 1])) places[u] = Place::kIn;
      if (i > 0 && before(u, chain_[i - 1])) places[u] = Place::kOut;
      if (j < chain_.size() && before(chain_[j], u)) places[u] = Place::kOut;
    }
    return places;
  }

  const SplitProblem& problem_;
  const Closure before_, after_;
  std::vector<uint32_t> chain_;
  double total_;
  std::vector<double> least_work_, most_work_;   // of a down-set, by class
  std::vector<std::vector<Stretch>> stretches_;  // by first class, then length - 1
};

}  // namespace

double stretch_bound(const SplitProblem& problem, uint32_t devices, double known, double upper, size_t most_stretches,
                     std::stop_token stop) {
  if (problem.units() == 0 || devices < 2) return known;
  Stretches stretches(problem, most_stretches);
  if (!stretches.price(upper, stop) || stretches.possible(devices, known)) return known;
  if (!stretches.possible(devices, upper)) return upper;
  double low = known, high = upper;
  while (high - low > 1e-6 * high) {
    const double middle = (low + high) / 2;
    (stretches.possible(devices, middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace rannc::partition
