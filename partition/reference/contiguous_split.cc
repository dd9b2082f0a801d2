// Solves the contiguous split over a pool of down-sets.
//
//   1 fold units that cost nothing            4 complete enumeration, if it ends: the exact chain
//   2 bounds from work and the heaviest unit  5 else improve over cheap cuts, bound by minimum cuts
//   3 several orders give a first split; fuse units that no better split can separate
// Exact if step 4 ends: the chain search is exact over all down-sets. Otherwise a heuristic with a proven bound.
#include "partition/reference/contiguous_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "partition/blocks/orders.h"
#include "partition/reference/cut_bounds.h"
#include "partition/reference/down_sets.h"
#include "partition/reference/stretch_bound.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kMaxClosureUnits = 5'000;  // the bounds store a bit per pair of units
constexpr uint32_t kRounds = 12;
constexpr uint32_t kSteps = 4;
constexpr uint32_t kBeam = 60;
constexpr uint64_t kMostPairs = 20'000'000;               // of down-sets, in one search through a pool
constexpr uint64_t kMostNearPairs = 100'000'000;          // in all searches near the best cuts
constexpr uint64_t kMostExactPairs = 4'000'000'000;       // through all of them
constexpr uint64_t kMostPairsToTheEnd = 400'000'000'000;  // likewise in exact mode: some twenty minutes
constexpr uint32_t kShakes = 2;                           // times that cuts are priced with other costs
constexpr double kReach = 0.12;           // of the largest load: work by which cuts that are combined differ
constexpr size_t kMostStretches = 4'000;  // priced for a bound
constexpr double kImprove = 1 - 1e-12;    // a split counts as better below this fraction of the best

/// Builds a level whose nets are the precedences, to use the topological orders of levels.
LevelGraph precedence_level(const SplitProblem& problem) {
  LevelGraph graph;
  graph.work = problem.work;
  graph.memory = problem.bytes;
  graph.pins.offsets.push_back(0);
  std::vector<double> sent(problem.units(), 0);
  for (uint32_t e = 0; e < problem.cost.size(); ++e) sent[problem.pins.row(e)[0]] += problem.cost[e];
  for (uint32_t u = 0; u < problem.units(); ++u) {
    if (problem.after.row(u).empty()) continue;
    graph.cost.push_back(sent[u]);
    graph.pins.items.push_back(u);
    for (uint32_t v : problem.after.row(u)) graph.pins.items.push_back(v);
    graph.pins.offsets.push_back(static_cast<uint32_t>(graph.pins.items.size()));
  }
  index_nodes(graph);
  return graph;
}

class Solver {
 public:
  Solver(const SplitProblem& problem, const SplitOptions& options)
      : options_(options), whole_(problem), interrupt_(options.stop, options.seconds) {}

  SplitResult solve() {
    if (!settle()) return std::move(result_);
    now_ = fold_free_units(whole_);
    simple_bounds();
    first_split();
    if (!result_.device_of && !enumerate()) {
      result_.reason = "no split within the memory limit was found";
      if (out_of_time()) result_.reason += " before the search was stopped";
      return std::move(result_);
    }
    if (gap_left() && !out_of_time()) raise_bound(device_bound(now_, result_.lower_bound, interrupt_), "device");
    if (gap_left() && !out_of_time()) cheap_cuts();
    if (gap_left() && !out_of_time()) enumerate();
    return std::move(result_);
  }

 private:
  bool settle() {
    uint64_t total = 0;
    for (uint32_t u = 0; u < whole_.units(); ++u) {
      total += whole_.bytes[u];
      if (whole_.bytes[u] <= whole_.memory_limit) continue;
      result_.reason = "a unit needs " + std::to_string(whole_.bytes[u]) + " bytes of " +
                       std::to_string(whole_.memory_limit) + " on a device";
      return false;
    }
    if (options_.devices == 0) {
      result_.reason = "there is no device";
    } else if (total / options_.devices > whole_.memory_limit) {
      result_.reason = "all units need " + std::to_string(total) + " bytes and " + std::to_string(options_.devices) +
                       " devices have " + std::to_string(whole_.memory_limit) + " each";
    }
    return result_.reason.empty();
  }

  void raise_bound(double bound, const char* name) {
    if (bound <= result_.lower_bound) return;
    result_.lower_bound = bound;
    result_.bound = name;
  }

  void simple_bounds() {
    result_.bound = "work";
    raise_bound(now_.total_work() / options_.devices, "work");
    for (double work : now_.work) raise_bound(work, "heaviest");
  }

  bool gap_left() const { return result_.lower_bound < result_.largest_load * kImprove; }

  bool out_of_time() {
    result_.timed_out |= interrupt_.requested();
    return result_.timed_out;
  }

  /// Takes a chain that is better than the best so far.
  void keep(const DownSetPool& pool, const Chain& chain) {
    if (!chain.found || (result_.device_of && chain.largest_load >= result_.largest_load)) return;
    const std::vector<uint32_t> of_unit = devices_of(pool, chain);
    const SplitProblem& problem = pool.problem();
    std::vector<uint32_t> device_of;
    for (uint32_t unit : problem.unit_of) device_of.push_back(of_unit[unit]);
    result_.device_of = std::move(device_of);
    result_.largest_load = chain.largest_load;
  }

  void first_split() {
    DownSetPool pool(now_);
    const LevelGraph level = precedence_level(now_);
    for (OrderKind kind : kAllOrders) pool.add_prefixes(order_nodes(level, kind));
    // A tight bound prunes the search; relax it until a chain is found.
    const double total = now_.total_work() + std::accumulate(now_.cost.begin(), now_.cost.end(), 0.0) * 2;
    for (double slack = 1.02; !result_.device_of; slack = 1 + (slack - 1) * 1.6) {
      const double bound = result_.lower_bound * slack;
      keep(pool, best_chain(pool, options_.devices, bound > 0 ? bound : 1e-300, UINT64_MAX, interrupt_));
      if (bound > 2 * total || bound <= 0 || out_of_time()) break;
    }
    // A search that was stopped may also have found a split.
    if (!result_.device_of)
      keep(pool, best_chain(pool, options_.devices, 2 * total + 1, out_of_time() ? kMostPairs : UINT64_MAX));
  }

  /// Returns true if every down-set was enumerated, which solves the problem.
  bool enumerate() {
    const SplitProblem reduced = result_.device_of ? fuse_inseparable(now_, result_.largest_load * kImprove) : now_;
    DownSetPool pool(reduced);
    if (!enumerate_down_sets(
            pool, options_.exact ? std::max<size_t>(options_.max_down_sets, 2'000'000) : options_.max_down_sets,
            interrupt_)) {
      return false;
    }
    const double bound = result_.device_of
                             ? result_.largest_load * kImprove
                             : 1 + now_.total_work() + 2 * std::accumulate(now_.cost.begin(), now_.cost.end(), 0.0);
    const Chain chain =
        best_chain(pool, options_.devices, bound, options_.exact ? kMostPairsToTheEnd : kMostExactPairs, interrupt_);
    keep(pool, chain);
    if (!chain.complete) return false;
    if (result_.device_of) raise_bound(result_.largest_load, "exhaustive");
    return true;
  }

  /// Improves over the cheapest down-sets of each class of cuts, then over those near the best cuts. Bounds by classes
  /// of cuts, then by stretches.
  void cheap_cuts() {
    if (now_.units() > kMaxClosureUnits) return;
    DownSetPool pool(now_);
    price_cut_classes(now_, now_.cost, &pool, interrupt_);
    keep(pool, best_chain(pool, options_.devices, result_.largest_load * kImprove, kMostPairs, interrupt_));
    const std::vector<double> price = crossing_prices(now_, options_.devices, result_.largest_load);
    raise_bound(cut_bound(now_, options_.devices, result_.lower_bound, result_.largest_load,
                          price_cut_classes(now_, price, nullptr, interrupt_)),
                "cuts");
    shake_prices(pool);
    bool combined = false;  // each step continues with what improved last
    for (uint32_t round = 0; round < kRounds && gap_left() && pairs_left_ > 0 && !out_of_time(); ++round) {
      if (improve_beside(pool, combined)) continue;
      combined = !combined;
      if (!improve_beside(pool, combined)) break;
    }
    if (!gap_left() || out_of_time()) return;
    raise_bound(
        stretch_bound(now_, options_.devices, result_.lower_bound, result_.largest_load, kMostStretches, options_.stop),
        "stretches");
  }

  /// Makes one step among the sets near the best cuts, with or without those of `pool`. Returns false if nothing
  /// improved.
  bool improve_beside(const DownSetPool& pool, bool combined) {
    DownSetPool near(now_);  // a new pool, since the search through a pool is quadratic
    for (uint32_t set : best_cuts(near)) {
      if (combined) combine(pool, near, set);
      add_neighbours(near, set);
    }
    const Chain chain = best_chain(near, options_.devices, result_.largest_load * kImprove,
                                   std::min(kMostPairs, pairs_left_), interrupt_);
    pairs_left_ -= chain.pairs;
    keep(near, chain);
    return chain.found;
  }

  /// Adds more cuts of each class: the cheapest ones if some values cost more and some less than they do. On wide
  /// graphs a class has many cuts that cost nearly as little as the cheapest, and which of them fit together is the
  /// question.
  void shake_prices(DownSetPool& pool) {
    std::mt19937_64 random(1);
    for (uint32_t shake = 0; shake < kShakes && gap_left() && !out_of_time(); ++shake) {
      std::vector<double> price = now_.cost;
      for (double& cost : price) cost = std::ldexp(cost, static_cast<int>(random() % 7) - 3);
      price_cut_classes(now_, price, &pool, interrupt_);
      keep(pool, best_chain(pool, options_.devices, result_.largest_load * kImprove, kMostPairs, interrupt_));
    }
  }

  /// Adds to `near` the sets of `pool` with about as much work as `cut`, and their unions and intersections with it.
  /// The union and the intersection together cut no more than the two sets themselves.
  void combine(const DownSetPool& pool, DownSetPool& near, uint32_t cut) const {
    std::vector<uint64_t> bits(near.words());
    for (uint32_t other = DownSetPool::kFull + 1; other < pool.size(); ++other) {
      if (std::abs(pool.work(other) - near.work(cut)) > kReach * result_.largest_load) continue;
      if (pool.cut(other) > result_.largest_load) continue;
      const std::span<const uint64_t> there = pool.bits(other);
      for (uint32_t w = 0; w < bits.size(); ++w) bits[w] = there[w] | near.bits(cut)[w];
      near.add(bits);
      for (uint32_t w = 0; w < bits.size(); ++w) bits[w] = there[w] & near.bits(cut)[w];
      near.add(bits);
      near.add(there);
    }
  }

  /// Returns the cuts of the best split so far, as members of `pool`.
  std::vector<uint32_t> best_cuts(DownSetPool& pool) const {
    std::vector<uint32_t> cuts;
    for (uint32_t device = 0; device + 1 < options_.devices; ++device) {
      std::vector<uint64_t> bits(pool.words(), 0);
      for (size_t i = 0; i < now_.unit_of.size(); ++i) {
        const uint32_t unit = now_.unit_of[i];
        if ((*result_.device_of)[i] <= device) bits[unit / 64] |= uint64_t{1} << (unit % 64);
      }
      const uint32_t cut = pool.add(bits);
      if (cut != DownSetPool::kEmpty && cut != DownSetPool::kFull) cuts.push_back(cut);
    }
    return cuts;
  }

  /// Adds down-sets a few units away from `from`, the cheaper cuts first; at most kBeam a step.
  static void add_neighbours(DownSetPool& pool, uint32_t from) {
    const SplitProblem& problem = pool.problem();
    std::vector<uint32_t> beam{from}, next;
    std::vector<uint64_t> bits;
    for (uint32_t step = 0; step < kSteps; ++step) {
      next.clear();
      for (uint32_t set : beam) {
        for (uint32_t u = 0; u < problem.units(); ++u) {
          const bool inside = pool.contains(set, u);
          const auto blockers = inside ? problem.after.row(u) : problem.before.row(u);
          if (!std::ranges::all_of(blockers, [&](uint32_t v) { return pool.contains(set, v) != inside; })) continue;
          bits.assign(pool.bits(set).begin(), pool.bits(set).end());
          bits[u / 64] ^= uint64_t{1} << (u % 64);
          next.push_back(inside ? pool.add(bits) : pool.add_unit(set, u));
        }
      }
      std::sort(next.begin(), next.end(),
                [&](uint32_t a, uint32_t b) { return pool.cut(a) != pool.cut(b) ? pool.cut(a) < pool.cut(b) : a < b; });
      next.erase(std::unique(next.begin(), next.end()), next.end());
      if (next.size() > kBeam) next.resize(kBeam);
      beam.swap(next);
    }
  }

  const SplitOptions& options_;
  const SplitProblem& whole_;
  const Interrupt interrupt_;
  SplitProblem now_;
  SplitResult result_;
  uint64_t pairs_left_ = kMostNearPairs;
};

}  // namespace

SplitResult solve_split(const SplitProblem& problem, const SplitOptions& options) {
  return Solver(problem, options).solve();
}

}  // namespace rannc::partition
