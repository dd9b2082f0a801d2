/// Computes a topological order that is independent of task ids.
#pragma once

#include <span>
#include <vector>

#include "partition/dag.h"

namespace rannc::partition {

/// Like the depth-first `topological_order`, but ties are broken by a hash of each task's costs and of everything
/// before and after it. Ids decide only between tasks with equal hashes (symmetric ones, for which it hardly matters).
/// `order` is any topological order of `dag`. O(size), about twice the cost of `topological_order`.
std::vector<uint32_t> structural_order(const Dag& dag, std::span<const uint32_t> order);

}  // namespace rannc::partition
