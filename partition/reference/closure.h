/// Which units of a split problem depend on which.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/reference/split_problem.h"

namespace rannc::partition {

/// All predecessors (or successors) of every unit, direct or not. O(units * values / 64) to build, a bit per pair.
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

/// A longest chain of units of which each depends on the one before.
std::vector<uint32_t> longest_chain(const SplitProblem& problem);

}  // namespace rannc::partition
