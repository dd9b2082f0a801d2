/// A topological order that does not depend on how tasks are numbered.
#pragma once

#include <span>
#include <vector>

#include "partition/dag.h"

namespace rannc::partition {

/// Depth first as `topological_order`, but ties go by a hash of each task's costs and of everything before and after
/// it; by id only between tasks whose hashes agree (symmetric ones, for which it hardly matters). `order` is any
/// topological order of `dag`. O(size), about twice the price of `topological_order`.
std::vector<uint32_t> structural_order(const Dag& dag, std::span<const uint32_t> order);

}  // namespace rannc::partition
