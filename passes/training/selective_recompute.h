/// Chooses the values that a stage keeps for its backward pass, and those that it computes again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ir/base/cut_network.h"
#include "ir/plan/functions.h"
#include "ir/plan/kept_choice.h"

namespace rannc::passes {

using ir::KeptChoice;
using ir::RecomputeCosts;

/// The exchange rate of memory and time: a choice costs `per_byte` times its kept bytes plus `per_ns` times its
/// recompute time. λ, in bytes per ns, is their ratio `per_ns / per_byte`: recompute of 1 ns is worth it if it saves
/// more than λ bytes. Both are >= 0.
struct RecomputePrice {
  int64_t per_byte = 1, per_ns = 1;
};

struct RecomputeNetwork;

/// Selective recompute of one stage as a minimum cut of its joint graph.
///
/// Every value that the backward pass reads is either kept or computed again from kept values. An input that is read
/// must be kept. A random input is kept or generated again. A task runs again as a whole: its time counts once,
/// whatever the number of its results. Kept memory counts once, whatever the number of its views, and kept memory
/// makes all its views available. A synchronised normalization never runs again.
///
/// `passes/selective-recompute.md` proves that the cut is exact. Limits: a view that reads a second value of the
/// micro-batch counts as a copy; the memory that R needs while it runs is not counted.
class SelectiveRecompute {
 public:
  /// Linear in the joint graph. The choices do not depend on the solver.
  SelectiveRecompute(const ir::Joint& joint, const RecomputeCosts& costs,
                     ir::CutNetwork::Solver solver = ir::CutNetwork::Solver::kBoost);

  /// The cheapest choice; of several, one that repeats fewest tasks. One maximum flow. A price is first scaled down,
  /// by powers of two, until all sums fit into 62 bits; a number above 0 stays above 0.
  KeptChoice cheapest(RecomputePrice price) const;

  static constexpr size_t kHullPoints = 16;
  /// Vertices of the lower convex hull of bytes and time, by ascending bytes: all choices that are cheapest at some
  /// price, up to `limit` >= 2. The first keeps least, the last recomputes least. While there are fewer than `limit`,
  /// the pair of neighbors with the largest product of differences in bytes and time is searched for a choice below its
  /// chord. At most two maximum flows per choice.
  std::vector<KeptChoice> hull(size_t limit = kHullPoints) const;

 private:
  /// A choice that is cheaper than both where both cost the same.
  std::optional<KeptChoice> below_chord(const KeptChoice& left, const KeptChoice& right) const;
  std::shared_ptr<const RecomputeNetwork> network_;
};

}  // namespace rannc::passes
