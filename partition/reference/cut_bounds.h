/// Computes lower bounds on the largest load, including communication, from minimum cuts.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/reference/down_sets.h"
#include "partition/reference/split_problem.h"

namespace rannc::partition {

/// Returns max over units u of min over sets S with u in S of work(S) + cost of the values with pins in and outside S.
/// Some device holds u, and its load is at least that. S need not be convex, which makes it a minimum cut. Units whose
/// work and values together are <= `known` are skipped. Returns `known` if nothing is larger. Returns the bound found
/// so far on an interrupt, and on graphs so large that a cut for every unit would take minutes.
double device_bound(const SplitProblem& problem, double known, const Interrupt& interrupt = Interrupt());

/// Cuts that separate a given chain of dependent units after its j-th unit. Every down-set belongs to exactly one
/// class.
struct CutClass {
  double least_work = 0;  ///< of the down-sets in the class
  double most_work = 0;
  double least_cut = 0;  ///< lower bound on the priced cuts of the down-sets in the class
};

/// Prices every class of a longest chain with one minimum cut each. Adds the cheapest down-sets found, some at tilted
/// prices, to `pool`. `price` is per value. O(chain * flow on the units that are free in the class). After an interrupt
/// the remaining classes have a cut of 0.
std::vector<CutClass> price_cut_classes(const SplitProblem& problem, const std::vector<double>& price,
                                        DownSetPool* pool, const Interrupt& interrupt = Interrupt());

/// Returns the least T >= `known` for which cuts of the classes could bound `devices` loads <= T, by bisection to a
/// relative 1e-6. With cuts of price c1 … c(k-1), the first s loads sum to at least work + 2 (c1 + … + c(s-1)) + cs,
/// and all of them to total + 2 * sum. `upper` is the load of a known split. It determines which values might cross two
/// cuts; these are priced at less than half (see `crossing_prices`), so that no value is counted more often than it is
/// paid.
double cut_bound(const SplitProblem& problem, uint32_t devices, double known, double upper,
                 const std::vector<CutClass>& classes);

/// Returns prices per value for which the sums of `cut_bound` hold: its cost, or cost / (2 r) if it may cross r > 1
/// cuts of a split with a largest load < `upper`.
std::vector<double> crossing_prices(const SplitProblem& problem, uint32_t devices, double upper);

}  // namespace rannc::partition
