/// Selects few combinations of factors that contain every pair of values.
#pragma once

#include <cstdint>
#include <vector>

namespace rannc::testing {

/// The index of a value per factor.
using Combination = std::vector<uint32_t>;

/// Two factors, `first` < `second`, with a value of each.
struct ValuePair {
  uint32_t first = 0, first_value = 0;
  uint32_t second = 0, second_value = 0;
  bool operator==(const ValuePair&) const = default;
};

/// Returns all combinations of factors with `sizes` values. The last factor varies fastest.
std::vector<Combination> all_combinations(const std::vector<uint32_t>& sizes);

/// Returns the pairs of values that no combination contains, ascending.
std::vector<ValuePair> absent_pairs(const std::vector<uint32_t>& sizes, const std::vector<Combination>& combinations);

/// Returns a selection of `candidates` that contains every pair of values that `candidates` contain. Greedy: each is
/// the first of those with the most new pairs. Not minimal. Quadratic in the worst case.
std::vector<Combination> cover_pairs(const std::vector<uint32_t>& sizes, const std::vector<Combination>& candidates);

}  // namespace rannc::testing
