// Bounds the largest load by minimum cuts.
//
// The device bound is a minimum cut per unit. The chain bound prices the classes of cuts along one longest chain. Both
// are relaxations: the sets of the device bound need not be convex, and the cuts of the chain bound need not nest.
#include "partition/reference/cut_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/base/flow_network.h"
#include "partition/reference/closure.h"

namespace rannc::partition {

using FlowNetwork = ir::FlowNetwork<double>;
namespace {

constexpr double kTolerance = 1e-11;             // relative to the work in question
constexpr uint64_t kMostSteps = 10'000'000'000;  // edges examined by the cuts around single units

enum class Side : uint8_t { kFree, kIn, kOut };

/// The minimum cut of one class: some units are fixed to either side, the rest are free.
class ClassCut {
 public:
  ClassCut(const SplitProblem& problem, const std::vector<double>& price) : problem_(problem), price_(price) {}

  void fix(std::vector<Side> side) {
    side_ = std::move(side);
    free_.clear();
    node_.assign(problem_.units(), 0);
    values_.clear();
    fixed_cost_ = 0;
    for (uint32_t u = 0; u < problem_.units(); ++u) {
      if (side_[u] != Side::kFree) continue;
      node_[u] = static_cast<uint32_t>(free_.size()) + 2;
      free_.push_back(u);
    }
    for (uint32_t e = 0; e < price_.size(); ++e) {
      bool in = false, out = false, open = false;
      for (uint32_t pin : problem_.pins.row(e)) {
        in |= side_[pin] == Side::kIn;
        out |= side_[pin] == Side::kOut;
        open |= side_[pin] == Side::kFree;
      }
      if (in && out) {
        fixed_cost_ += price_[e];
      } else if (open) {
        values_.push_back(e);
      }
    }
  }

  /// Returns the least price of the cut + tilt * work of the free units inside. A negative tilt draws units in.
  double solve(double tilt, double scale) {
    tolerance_ = kTolerance * scale;
    network_.reset(static_cast<uint32_t>(2 + free_.size() + 2 * values_.size()));
    double constant = fixed_cost_;
    for (uint32_t u : free_) {
      if (tilt > 0) network_.add_edge(node_[u], kSink, tilt * problem_.work[u]);
      if (tilt < 0) {
        network_.add_edge(kSource, node_[u], -tilt * problem_.work[u]);
        constant += tilt * problem_.work[u];
      }
      for (uint32_t v : problem_.before.row(u)) {
        if (side_[v] == Side::kFree) network_.add_edge(node_[u], node_[v], FlowNetwork::kUncuttable);
      }
    }
    uint32_t next = static_cast<uint32_t>(2 + free_.size());
    for (uint32_t e : values_) {
      const uint32_t enter = next++, leave = next++;
      network_.add_edge(enter, leave, price_[e]);
      for (uint32_t pin : problem_.pins.row(e)) {
        if (side_[pin] == Side::kIn) network_.add_edge(kSource, enter, FlowNetwork::kUncuttable);
        if (side_[pin] == Side::kOut) network_.add_edge(leave, kSink, FlowNetwork::kUncuttable);
        if (side_[pin] != Side::kFree) continue;
        network_.add_edge(node_[pin], enter, FlowNetwork::kUncuttable);
        network_.add_edge(leave, node_[pin], FlowNetwork::kUncuttable);
      }
    }
    return network_.min_cut(kSource, kSink, tolerance_) + constant;
  }

  /// Adds the smallest and the largest minimum cut of the last search.
  void collect(DownSetPool& pool) const {
    for (const std::vector<bool>& inside :
         {network_.source_side(kSource, tolerance_), network_.not_sink_side(kSink, tolerance_)}) {
      std::vector<uint64_t> bits(pool.words(), 0);
      for (uint32_t u = 0; u < problem_.units(); ++u) {
        const bool in = side_[u] == Side::kIn || (side_[u] == Side::kFree && inside[node_[u]]);
        if (in) bits[u / 64] |= uint64_t{1} << (u % 64);
      }
      if (is_down_set(bits)) pool.add(bits);
    }
  }

  double free_work() const {
    double work = 0;
    for (uint32_t u : free_) work += problem_.work[u];
    return work;
  }

 private:
  /// Dropped flow may leave a set that is not closed; such a set is not a candidate.
  bool is_down_set(const std::vector<uint64_t>& bits) const {
    for (uint32_t u : free_) {
      if (!(bits[u / 64] >> (u % 64) & 1)) continue;
      for (uint32_t v : problem_.before.row(u)) {
        if (!(bits[v / 64] >> (v % 64) & 1)) return false;
      }
    }
    return true;
  }

  static constexpr uint32_t kSource = 0, kSink = 1;
  const SplitProblem& problem_;
  const std::vector<double>& price_;
  std::vector<Side> side_;
  std::vector<uint32_t> free_, node_, values_;
  double fixed_cost_ = 0, tolerance_ = 0;
  FlowNetwork network_;
};

/// Whether cuts of the classes can bound loads <= `limit`.
bool chain_fits(const SplitProblem& problem, uint32_t devices, double limit, const std::vector<CutClass>& classes) {
  const double total = problem.total_work();
  // spent[j]: least sum of the prices of s cuts whose last is in class j.
  std::vector<double> spent(classes.size(), 0), next;
  double least = 0;
  for (uint32_t s = 1; s < devices; ++s) {
    next.assign(classes.size(), std::numeric_limits<double>::infinity());
    double before = s == 1 ? 0 : std::numeric_limits<double>::infinity();
    least = std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < classes.size(); ++j) {
      if (s > 1) before = std::min(before, spent[j]);
      const CutClass& c = classes[j];
      if (c.least_work + 2 * before + c.least_cut > limit * s) continue;
      if (total - c.most_work + c.least_cut > limit * (devices - s)) continue;
      next[j] = before + c.least_cut;
      least = std::min(least, next[j]);
    }
    spent.swap(next);
  }
  return total + 2 * least <= limit * devices;
}

}  // namespace

double device_bound(const SplitProblem& problem, double known, const Interrupt& interrupt) {
  constexpr uint32_t kSource = 0, kSink = 1;
  const uint32_t n = problem.units();
  const double total = problem.total_work() + std::accumulate(problem.cost.begin(), problem.cost.end(), 0.0);
  std::vector<std::pair<double, uint32_t>> candidates;  // by the load of a device with u alone, largest first
  for (uint32_t u = 0; u < n; ++u) {
    double alone = problem.work[u];
    for (uint32_t e : problem.values.row(u)) alone += problem.cost[e];
    candidates.emplace_back(-alone, u);
  }
  std::sort(candidates.begin(), candidates.end());
  FlowNetwork network;
  for (const auto& [negative, u] : candidates) {
    if (-negative <= known || network.steps() > kMostSteps || interrupt.requested()) break;
    network.reset(static_cast<uint32_t>(2 + n + 2 * problem.cost.size()));
    network.add_edge(kSource, 2 + u, FlowNetwork::kUncuttable);
    for (uint32_t v = 0; v < n; ++v) network.add_edge(2 + v, kSink, problem.work[v]);
    for (uint32_t e = 0; e < problem.cost.size(); ++e) {
      const uint32_t enter = 2 + n + 2 * e, leave = enter + 1;
      network.add_edge(enter, leave, problem.cost[e]);
      for (uint32_t pin : problem.pins.row(e)) {
        network.add_edge(2 + pin, enter, FlowNetwork::kUncuttable);
        network.add_edge(leave, 2 + pin, FlowNetwork::kUncuttable);
      }
    }
    // A value that leaves the set is paid towards the sink: all units outside are joined to it by their work alone, so
    // the cut is work inside + values between; work outside is not paid.
    known = std::max(known, network.min_cut(kSource, kSink, kTolerance * total));
  }
  return known;
}

std::vector<CutClass> price_cut_classes(const SplitProblem& problem, const std::vector<double>& price,
                                        DownSetPool* pool, const Interrupt& interrupt) {
  const Closure before(problem, Closure::Side::kPredecessors), after(problem, Closure::Side::kSuccessors);
  const std::vector<uint32_t> chain = longest_chain(problem);
  const double total = problem.total_work();
  std::vector<CutClass> classes;
  ClassCut cut(problem, price);
  for (size_t j = 0; j <= chain.size(); ++j) {
    std::vector<Side> side(problem.units(), Side::kFree);
    for (uint32_t u = 0; u < problem.units(); ++u) {
      if (j > 0 && (u == chain[j - 1] || before.has(chain[j - 1], u))) side[u] = Side::kIn;
      if (j < chain.size() && (u == chain[j] || after.has(chain[j], u))) side[u] = Side::kOut;
    }
    CutClass item;
    item.least_work = j > 0 ? before.work(chain[j - 1]) + problem.work[chain[j - 1]] : 0;
    item.most_work = total - (j < chain.size() ? after.work(chain[j]) + problem.work[chain[j]] : 0);
    if (interrupt.requested()) {
      classes.push_back(item);
      continue;
    }
    cut.fix(std::move(side));
    item.least_cut = std::max(0.0, cut.solve(0, total) - kTolerance * total);
    classes.push_back(item);
    if (pool == nullptr) continue;
    cut.collect(*pool);
    const double tilt = item.least_cut / std::max(cut.free_work(), total * 1e-9);
    for (double factor : {-4.0, -1.0, -0.25, 0.25, 1.0, 4.0}) {
      cut.solve(tilt * factor, total);
      cut.collect(*pool);
    }
  }
  return classes;
}

std::vector<double> crossing_prices(const SplitProblem& problem, uint32_t devices, double upper) {
  const Closure before(problem, Closure::Side::kPredecessors), after(problem, Closure::Side::kSuccessors);
  const double total = problem.total_work();
  // A device between two cuts has at least the work that the others cannot take.
  const double least_middle = total - upper * (devices - 1);
  std::vector<double> price;
  for (uint32_t e = 0; e < problem.cost.size(); ++e) {
    // A pin inside the first cut implies its predecessors, a pin outside the second its successors.
    double inside = std::numeric_limits<double>::infinity(), outside = inside;
    for (uint32_t pin : problem.pins.row(e)) {
      inside = std::min(inside, before.work(pin) + problem.work[pin]);
      outside = std::min(outside, after.work(pin) + problem.work[pin]);
    }
    double crossings = 1;
    if (devices > 2) {
      const double room = std::max(0.0, total - inside - outside);
      crossings =
          least_middle > 0 ? std::min<double>(devices - 1, 1 + std::floor(room / least_middle + 1e-9)) : devices - 1;
    }
    price.push_back(crossings > 1 ? problem.cost[e] / (2 * crossings) : problem.cost[e]);
  }
  return price;
}

double cut_bound(const SplitProblem& problem, uint32_t devices, double known, double upper,
                 const std::vector<CutClass>& classes) {
  if (devices < 2 || chain_fits(problem, devices, known, classes)) return known;
  double low = known, high = upper;
  if (!chain_fits(problem, devices, high, classes)) return high;
  while (high - low > 1e-6 * high) {
    const double middle = (low + high) / 2;
    (chain_fits(problem, devices, middle, classes) ? high : low) = middle;
  }
  return low;
}

}  // namespace rannc::partition
