/// A lower bound on what any balanced acyclic partition into k blocks pays for values between blocks.
#pragma once

#include <cstdint>

#include "partition/blocks/level_graph.h"

namespace rannc::partition {

/// At most the crossing cost (`measure`: each value once per receiving block) of every partition into exactly `blocks`
/// non-empty blocks whose ids are ranks and whose work is at most `work_limit`. The larger of two bounds:
///   1. a block that receives nothing holds a source, so at least blocks - sources blocks receive some value;
///   2. the k - 1 cuts between ranks are down-sets. Along one longest path u1 … um each falls into the class of its
///   last
///      member ui; in a class, ancestors of ui are inside and descendants of u(i+1) outside, which forces some values
///      to cross. A value that may cross r cuts of a balanced partition counts 1 / r at each. The cheapest sequence of
///      classes that balanced cuts can take, by dynamic programming, is the bound.
/// `graph` is a level 0. 0 where nothing is proved: wide graphs without bottlenecks. O(pins + path * blocks).
double crossing_bound(const LevelGraph& graph, uint32_t blocks, double work_limit);

}  // namespace rannc::partition
