#include "partition/reference/closure.h"

#include <algorithm>
#include <bit>

namespace rannc::partition {

Closure::Closure(const SplitProblem& problem, Side side) : words_((problem.units() + 63) / 64) {
  const uint32_t n = problem.units();
  const bool backward = side == Side::kPredecessors;
  bits_.assign(size_t{words_} * n, 0);
  work_.assign(n, 0);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t u = backward ? i : n - 1 - i;
    uint64_t* row = bits_.data() + size_t{words_} * u;
    for (uint32_t v : backward ? problem.before.row(u) : problem.after.row(u)) {
      const uint64_t* other = bits_.data() + size_t{words_} * v;
      for (uint32_t w = 0; w < words_; ++w) row[w] |= other[w];
      row[v / 64] |= uint64_t{1} << (v % 64);
    }
    for (uint32_t w = 0; w < words_; ++w) {
      for (uint64_t rest = row[w]; rest != 0; rest &= rest - 1)
        work_[u] += problem.work[w * 64 + std::countr_zero(rest)];
    }
  }
}

std::vector<uint32_t> longest_chain(const SplitProblem& problem) {
  std::vector<uint32_t> length(problem.units(), 1), from(problem.units(), UINT32_MAX), chain;
  for (uint32_t u = 0; u < problem.units(); ++u) {
    for (uint32_t v : problem.before.row(u)) {
      if (length[v] + 1 <= length[u]) continue;
      length[u] = length[v] + 1;
      from[u] = v;
    }
  }
  if (length.empty()) return chain;
  uint32_t at = static_cast<uint32_t>(std::max_element(length.begin(), length.end()) - length.begin());
  for (; at != UINT32_MAX; at = from[at]) chain.push_back(at);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace rannc::partition
