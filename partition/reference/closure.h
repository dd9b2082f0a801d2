/// Computes the transitive dependences between units of a split problem.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/reference/split_problem.h"

namespace rannc::partition {

/// All direct and indirect predecessors (or successors) of every unit. O(units * values / 64) to build, one bit per
/// pair.
class Closure {
 public:
  enum class Side : uint8_t { kPredecessors, kSuccessors };
  Closure(const SplitProblem& problem, Side side);

  bool has(uint32_t u, uint32_t v) const { return bits_[size_t{words_} * u + v / 64] >> (v % 64) & 1; }
  double work(uint32_t u) const { return work_[u]; }  ///< of all of them, without u

 private:
  uint32_t words_;
  std::vector<uint64_t> bits_;
  std::vector<double> work_;
};

/// Returns a longest chain of units in which each depends on the one before.
std::vector<uint32_t> longest_chain(const SplitProblem& problem);

}  // namespace rannc::partition
