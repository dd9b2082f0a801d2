/// Lower bounds on the largest load that take communication into account, from minimum cuts.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/reference/down_sets.h"
#include "partition/reference/split_problem.h"

namespace rannc::partition {

/// max over units u of min over sets S with u in S of work(S) + cost of the values with pins in and outside S. Some
/// device holds u, and its load is at least that; S need not be convex, which makes it a minimum cut. Units whose
/// work and values together are <= `known` are skipped; `known` is returned where nothing is larger. What is known by
/// then is returned where `interrupt` asks, and on graphs so large that a cut for every unit would take minutes.
double device_bound(const SplitProblem& problem, double known, const Interrupt& interrupt = Interrupt());

/// Cuts that part one given chain of dependent units after its j-th unit: every down-set belongs to exactly one class.
struct CutClass {
  double least_work = 0;  ///< of the down-sets in the class
  double most_work = 0;
  double least_cut = 0;  ///< lower bound on the priced cut of the down-sets in the class
};

/// Prices every class of a longest chain by one minimum cut each, and adds the cheapest down-sets it meets, some at
/// tilted prices, to `pool`. `price` is per value. O(chain * flow on the units that are free in the class). Where
/// `interrupt` asks, the classes that are left have a cut of 0.
std::vector<CutClass> price_cut_classes(const SplitProblem& problem, const std::vector<double>& price,
                                        DownSetPool* pool, const Interrupt& interrupt = Interrupt());

/// The least T >= `known` for which cuts of the classes could bound `devices` loads <= T, by bisection to 1e-6 of it:
/// with cuts of price c1 … c(k-1), the first s loads sum up to at least work + 2 (c1 + … + c(s-1)) + cs, and all of
/// them to total + 2 * sum. `upper` is the load of a known split; it tells which values might cross two cuts, and these
/// are priced at less than half (see `crossing_prices`), so that no value is counted more often than it is paid.
double cut_bound(const SplitProblem& problem, uint32_t devices, double known, double upper,
                 const std::vector<CutClass>& classes);

/// Price per value at which the sums of `cut_bound` hold: its cost, or cost / (2 r) where it may cross r > 1 cuts of a
/// split with a largest load < `upper`.
std::vector<double> crossing_prices(const SplitProblem& problem, uint32_t devices, double upper);

}  // namespace rannc::partition
