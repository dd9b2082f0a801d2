// Greedy covering arrays of strength two.
#include "tests/support/covering_array.h"

#include <numeric>

namespace rannc::testing {
namespace {

/// The set of pairs that some combinations contain.
class Pairs {
 public:
  explicit Pairs(const std::vector<uint32_t>& sizes) {
    for (const uint32_t size : sizes) {
      offsets_.push_back(values_);
      values_ += size;
    }
    contained_.assign(values_ * values_, false);
  }

  bool contains(const ValuePair& pair) const {
    return contained_[at(pair.first, pair.first_value, pair.second, pair.second_value)];
  }
  size_t count_new(const Combination& combination) const {
    size_t found = 0;
    for (uint32_t a = 0; a < combination.size(); ++a) {
      for (uint32_t b = a + 1; b < combination.size(); ++b) {
        found += contained_[at(a, combination[a], b, combination[b])] ? 0 : 1;
      }
    }
    return found;
  }
  void add(const Combination& combination) {
    for (uint32_t a = 0; a < combination.size(); ++a) {
      for (uint32_t b = a + 1; b < combination.size(); ++b) contained_[at(a, combination[a], b, combination[b])] = true;
    }
  }

 private:
  size_t at(uint32_t a, uint32_t value_a, uint32_t b, uint32_t value_b) const {
    return (offsets_[a] + value_a) * values_ + offsets_[b] + value_b;
  }

  std::vector<size_t> offsets_;
  size_t values_ = 0;
  std::vector<bool> contained_;
};

}  // namespace

std::vector<Combination> all_combinations(const std::vector<uint32_t>& sizes) {
  const size_t count = std::accumulate(sizes.begin(), sizes.end(), size_t{1}, std::multiplies<>());
  std::vector<Combination> all(count, Combination(sizes.size()));
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    for (size_t factor = sizes.size(); factor-- > 0; rest /= sizes[factor]) {
      all[i][factor] = static_cast<uint32_t>(rest % sizes[factor]);
    }
  }
  return all;
}

std::vector<ValuePair> absent_pairs(const std::vector<uint32_t>& sizes, const std::vector<Combination>& combinations) {
  Pairs contained(sizes);
  for (const Combination& combination : combinations) contained.add(combination);
  std::vector<ValuePair> absent;
  for (uint32_t a = 0; a < sizes.size(); ++a) {
    for (uint32_t value_a = 0; value_a < sizes[a]; ++value_a) {
      for (uint32_t b = a + 1; b < sizes.size(); ++b) {
        for (uint32_t value_b = 0; value_b < sizes[b]; ++value_b) {
          const ValuePair pair{a, value_a, b, value_b};
          if (!contained.contains(pair)) absent.push_back(pair);
        }
      }
    }
  }
  return absent;
}

std::vector<Combination> cover_pairs(const std::vector<uint32_t>& sizes, const std::vector<Combination>& candidates) {
  Pairs covered(sizes);
  std::vector<Combination> chosen;
  while (true) {
    const Combination* best = nullptr;
    size_t most = 0;
    for (const Combination& candidate : candidates) {
      const size_t found = covered.count_new(candidate);
      if (found > most) most = found, best = &candidate;
    }
    if (best == nullptr) return chosen;
    covered.add(*best);
    chosen.push_back(*best);
  }
}

}  // namespace rannc::testing
