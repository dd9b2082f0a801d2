#include "partition/reference/pipedream_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "partition/reference/closure.h"
#include "partition/reference/cut_bounds.h"
#include "partition/stages/papers/pipedream.h"

namespace rannc::partition {

namespace {

constexpr double kUnreached = -std::numeric_limits<double>::infinity();
constexpr double kSafe = 1 - 1e-9;  // against rounding of sums
constexpr int kHalvings = 24;

/// Least and most of an additive quantity over the down-sets of a class.
struct Range {
  double least = 0, most = 0;
};

/// A profile's layers as units.
struct Layers {
  SplitProblem problem;  ///< work in seconds; a value costs its bytes
  std::vector<double> parameter_bytes, activation_bytes;
};

/// The classes of down-sets between which a plan cuts.
class Classes {
 public:
  explicit Classes(const Layers& layers)
      : problem_(layers.problem),
        before_(problem_, Closure::Side::kPredecessors),
        chain_(longest_chain(problem_)),
        compute_(ranges(problem_)),
        compute_total_(problem_.total_work()) {
    SplitProblem by_bytes = problem_;
    by_bytes.work = layers.parameter_bytes;
    bytes_ = ranges(by_bytes);
    bytes_total_ = by_bytes.total_work();
    for (const CutClass& one : price_cut_classes(problem_, problem_.cost, nullptr)) sent_.push_back(one.least_cut);
    const std::vector<double> beside = bytes_beside(layers.activation_bytes);
    for (size_t j = 1; j < sent_.size(); ++j) sent_[j] = std::max(sent_[j], least_beside(beside, j));
  }

  size_t count() const { return sent_.size(); }
  /// Least bytes that leave a down-set of the class.
  double sent(size_t j) const { return sent_[j]; }
  const Range& bytes(size_t j) const { return bytes_[j]; }
  double compute_total() const { return compute_total_; }
  double bytes_total() const { return bytes_total_; }

  /// Compute time plus a multiple of the parameters.
  Range weighted(size_t j, double per_byte) const {
    return {compute_[j].least + per_byte * bytes_[j].least, compute_[j].most + per_byte * bytes_[j].most};
  }

 private:
  /// The down-sets of class j have the j-th unit of the chain and all before it, and neither the next one nor any after
  /// it.
  std::vector<Range> ranges(const SplitProblem& problem) const {
    const Closure before(problem, Closure::Side::kPredecessors), after(problem, Closure::Side::kSuccessors);
    std::vector<Range> found;
    for (size_t j = 0; j <= chain_.size(); ++j) {
      const double in = j > 0 ? before.work(chain_[j - 1]) + problem.work[chain_[j - 1]] : 0;
      const double out = j < chain_.size() ? after.work(chain_[j]) + problem.work[chain_[j]] : 0;
      found.push_back({in, problem.total_work() - out});
    }
    return found;
  }

  /// Bytes that the augmented antichain has at least if x is one of its members: x, and each value before x that
  /// something beside x and what is before it reads.
  std::vector<double> bytes_beside(const std::vector<double>& activation_bytes) const {
    std::vector<double> bytes = activation_bytes;
    for (uint32_t x = 0; x < problem_.units(); ++x) {
      for (uint32_t e = 0; e < problem_.cost.size(); ++e) {
        const auto pins = problem_.pins.row(e);
        if (!before_.has(x, pins[0])) continue;
        const auto beside = [&](uint32_t reader) { return reader != x && !before_.has(x, reader); };
        if (std::any_of(pins.begin() + 1, pins.end(), beside)) bytes[x] += problem_.cost[e];
      }
    }
    return bytes;
  }

  /// The last unit of the class's chain is a member, or before one.
  double least_beside(const std::vector<double>& beside, size_t j) const {
    double least = std::numeric_limits<double>::infinity();
    const uint32_t last = chain_[j - 1];
    for (uint32_t x = 0; x < problem_.units(); ++x) {
      if (x != last && !before_.has(x, last)) continue;
      if (j < chain_.size() && (x == chain_[j] || before_.has(x, chain_[j]))) continue;
      least = std::min(least, beside[x]);
    }
    return least;
  }

  const SplitProblem& problem_;
  Closure before_;
  std::vector<uint32_t> chain_;
  std::vector<Range> compute_, bytes_;
  std::vector<double> sent_;
  double compute_total_ = 0, bytes_total_ = 0;
};

/// Tests bottlenecks. Positions are compute seconds plus `per_byte` times parameters.
class Test {
 public:
  Test(const Classes& classes, uint32_t machines, double bytes_per_second, double per_byte)
      : classes_(classes), machines_(machines), bandwidth_(bytes_per_second), per_byte_(per_byte) {
    for (size_t j = 0; j < classes.count(); ++j) positions_.push_back(classes.weighted(j, per_byte));
    total_ = classes.compute_total() + per_byte * classes.bytes_total();
  }

  /// Whether the relaxation has stages with a bottleneck of `limit`.
  bool fits(double limit) const {
    const Range nothing, all{classes_.bytes_total(), classes_.bytes_total()};
    if (advance(0, nothing, all, machines_, limit) >= total_ * kSafe) return true;
    // reach[m][j]: the last position of a cut in class j after stages on m machines.
    std::vector<std::vector<double>> reach(machines_, std::vector<double>(classes_.count(), kUnreached));
    for (uint32_t used = 1; used < machines_; ++used) {
      for (size_t j = 0; j < classes_.count(); ++j)
        settle(reach[used][j], j, advance(0, nothing, classes_.bytes(j), used, limit));
      for (uint32_t last = 1; last < used; ++last) extend(reach[used - last], last, limit, reach[used]);
      if (ends(reach[used], machines_ - used, limit)) return true;
    }
    return false;
  }

 private:
  /// The last position that a stage on `machines` reaches from `position`, between cuts with these parameters before
  /// them.
  double advance(double position, const Range& from, const Range& to, uint32_t machines, double limit) const {
    const double extra = synchronisation(machines) - per_byte_;
    const double bytes = extra >= 0 ? std::max(0.0, to.least - from.most) : std::max(0.0, to.most - from.least);
    return position + machines * limit - extra * bytes;
  }
  double synchronisation(uint32_t machines) const { return 4.0 * (machines - 1) / (bandwidth_ * machines); }

  bool sends(size_t j, uint32_t machines, double limit) const {
    return 2 * classes_.sent(j) / (bandwidth_ * machines) * kSafe <= limit;
  }

  /// Moves the last position of a class, if the stage reaches the class.
  void settle(double& reach, size_t j, double position) const {
    if (position < positions_[j].least * kSafe) return;
    reach = std::max(reach, std::min(position, positions_[j].most));
  }

  void extend(const std::vector<double>& before, uint32_t last, double limit, std::vector<double>& reach) const {
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] == kUnreached || !sends(i, last, limit)) continue;
      for (size_t j = i; j < before.size(); ++j) {
        if (!sends(j, last, limit)) continue;
        settle(reach[j], j, advance(before[i], classes_.bytes(i), classes_.bytes(j), last, limit));
      }
    }
  }

  bool ends(const std::vector<double>& reach, uint32_t last, double limit) const {
    const Range all{classes_.bytes_total(), classes_.bytes_total()};
    for (size_t i = 0; i < reach.size(); ++i) {
      if (reach[i] == kUnreached || !sends(i, last, limit)) continue;
      if (advance(reach[i], classes_.bytes(i), all, last, limit) >= total_ * kSafe) return true;
    }
    return false;
  }

  const Classes& classes_;
  uint32_t machines_;
  double bandwidth_, per_byte_, total_ = 0;
  std::vector<Range> positions_;
};

/// The profile of the layers that the optimizer has.
PipedreamProfile optimized(const PipedreamProfile& profile) {
  const std::vector<char> keep = optimized_layers(profile);
  std::vector<uint32_t> place(profile.nodes.size());
  PipedreamProfile kept;
  for (uint32_t node = 0; node < profile.nodes.size(); ++node) {
    place[node] = static_cast<uint32_t>(kept.nodes.size());
    if (keep[node]) kept.nodes.push_back(profile.nodes[node]);
  }
  for (const auto& [from, to] : profile.edges) {
    if (keep[from] && keep[to]) kept.edges.emplace_back(place[from], place[to]);
  }
  return kept;
}

Layers layers_of(const PipedreamProfile& profile) {
  Layers layers{split_problem_of(dag_of_profile(profile, 1e3, 1)).value(), {}, {}};
  SplitProblem& problem = layers.problem;
  std::fill(problem.work.begin(), problem.work.end(), 0);
  layers.parameter_bytes.assign(problem.units(), 0);
  layers.activation_bytes.assign(problem.units(), 0);
  for (size_t node = 0; node < profile.nodes.size(); ++node) {
    const ProfileNode& layer = profile.nodes[node];
    const uint32_t unit = problem.unit_of[node];
    problem.work[unit] = (layer.forward_ms + layer.backward_ms) / 1e3;
    layers.parameter_bytes[unit] = layer.parameter_bytes;
    layers.activation_bytes[unit] = layer.activation_sum();
  }
  return layers;
}

}  // namespace

double pipedream_bound(const PipedreamProfile& profile, uint32_t machines, double bytes_per_second, double known) {
  const Layers layers = layers_of(optimized(profile));
  const Classes classes(layers);
  double bound = std::min(known, classes.compute_total() / machines * kSafe);
  std::set<uint32_t> counts = {1, 2, 3, 4, machines / 2, machines};
  for (const uint32_t count : counts) {
    if (count == 0 || count > machines) continue;
    const Test test(classes, machines, bytes_per_second, 4.0 * (count - 1) / (bytes_per_second * count));
    if (test.fits(bound)) continue;
    if (!test.fits(known * kSafe)) return known;
    double fails = bound, fits = known * kSafe;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (fails + fits) / 2;
      (test.fits(middle) ? fits : fails) = middle;
    }
    bound = fails;
  }
  return bound;
}

}  // namespace rannc::partition
