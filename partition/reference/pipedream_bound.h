/// Computes a lower bound on PipeDream's bottleneck for graphs with too many down-sets.
#pragma once

#include <cstdint>

#include "partition/formats/pipedream_text.h"

namespace rannc::partition {

/// Returns a lower bound, in seconds, on the bottleneck of every plan of PipeDream's objective on one level of
/// `machines` with `bytes_per_second` between them, at most `known`, the bottleneck of some plan. `known` itself: no
/// plan is better.
///
/// A longest chain of layers divides the down-sets into classes (`price_cut_classes`). A class has bounds on the
/// compute time and the parameters of its down-sets, and on the bytes that leave them: those that cross (one minimum
/// cut), and those of the augmented antichain beside each layer that may be its member above the chain. A dynamic
/// program over (class, machines) tests whether stages with a bottleneck T could exist; bisection finds the least such
/// T. It weighs compute time plus a multiple of the parameters, so that the synchronisation of stages with one number
/// of machines is exact; several multiples are tried. O(layers * minimum cut + layers^2 * machines^2), times some
/// hundred.
double pipedream_bound(const PipedreamProfile& profile, uint32_t machines, double bytes_per_second, double known);

}  // namespace rannc::partition
