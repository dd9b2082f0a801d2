/// Enumerates down-sets of a split problem with the cost of a cut after each.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "ir/base/stopwatch.h"
#include "partition/reference/split_problem.h"

namespace rannc::partition {

/// A set of distinct down-sets (with each unit, all its predecessors). A split is a chain of them.
class DownSetPool {
 public:
  /// Contains the empty and the full set from the start, as 0 and 1. `problem` must outlive the pool.
  explicit DownSetPool(const SplitProblem& problem);

  static constexpr uint32_t kEmpty = 0, kFull = 1;
  uint32_t size() const { return static_cast<uint32_t>(work_.size()); }
  double work(uint32_t set) const { return work_[set]; }
  double cut(uint32_t set) const { return cut_[set]; }  ///< cost of the values with pins inside and outside
  uint64_t bytes(uint32_t set) const { return bytes_[set]; }
  std::span<const uint64_t> bits(uint32_t set) const { return {bits_.data() + size_t{words_} * set, words_}; }
  bool contains(uint32_t set, uint32_t unit) const { return bits(set)[unit / 64] >> (unit % 64) & 1; }
  bool subset(uint32_t inner, uint32_t outer) const;

  /// Load of a device that holds `outer` without `inner`, a subset of it.
  double load(uint32_t inner, uint32_t outer) const;

  /// Adds the set with these bits unless it exists. Returns its id.
  uint32_t add(std::span<const uint64_t> bits);
  /// Adds `set` plus `unit`, which is ready in it, in time proportional to the unit's values.
  uint32_t add_unit(uint32_t set, uint32_t unit);
  /// Adds the proper prefixes of a topological order, or every few of them if all would take more than `most_bytes`.
  void add_prefixes(std::span<const uint32_t> order, size_t most_bytes = kPrefixBytes);

  static constexpr size_t kPrefixBytes = size_t{96} << 20;
  /// Memory of all sets.
  size_t bytes_taken() const { return bits_.size() * sizeof(uint64_t) + crossing_.size() * sizeof(uint32_t); }
  uint32_t words() const { return words_; }
  const SplitProblem& problem() const { return problem_; }

 private:
  uint32_t find(std::span<const uint64_t> bits, uint64_t hash) const;
  uint32_t append(std::span<const uint64_t> bits, uint64_t hash, double work, uint64_t bytes,
                  std::span<const uint32_t> crossing);
  bool crosses(std::span<const uint64_t> bits, uint32_t value) const;

  const SplitProblem& problem_;
  uint32_t words_;
  std::vector<uint64_t> bits_, hash_;
  std::vector<double> work_, cut_;
  std::vector<uint64_t> bytes_;
  std::vector<uint64_t> offset_;    // of each set's crossing values
  std::vector<uint32_t> crossing_;  // ascending per set
  std::vector<uint64_t> unit_hash_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;  // lookup only, never iterated
};

/// Condition that ends a search early: a stop request, a time limit, or both.
class Interrupt {
 public:
  explicit Interrupt(std::stop_token stop = {}, double seconds = 0) : stop_(std::move(stop)), seconds_(seconds) {}
  bool requested() const { return stop_.stop_requested() || (seconds_ > 0 && watch_.seconds() > seconds_); }

 private:
  std::stop_token stop_;
  double seconds_;
  Stopwatch watch_;
};

/// Fills `pool` with all down-sets. Returns false, with the pool filled so far, if there are or will clearly be more
/// than `limit`, if they would take more than a gigabyte, or on an interrupt.
bool enumerate_down_sets(DownSetPool& pool, size_t limit, const Interrupt& interrupt = Interrupt());

/// The best chain through a pool.
struct Chain {
  double largest_load = 0;
  std::vector<uint32_t> sets;  ///< ascending, without the empty and the full set: the cuts
  bool found = false;
  bool complete = true;  ///< whether all pairs were examined
  uint64_t pairs = 0;    ///< number of examined pairs
};

/// Returns the chain of at most `devices` blocks, each within memory, with the least largest load < `bound`; not found
/// if there is none. Exact over the pool, hence over all splits if the pool contains every down-set. A set I can end
/// block s only if work(I) + cut(I) < s * bound and W - work(I) + cut(I) < (devices - s) * bound. This prunes nearly
/// all sets of real networks before any pair is examined. Ends with the best chain so far after `most_pairs`, because
/// graphs without an order have too many pairs, and on an interrupt.
Chain best_chain(const DownSetPool& pool, uint32_t devices, double bound, uint64_t most_pairs = UINT64_MAX,
                 const Interrupt& interrupt = Interrupt());

/// Returns the device of every unit under a chain.
std::vector<uint32_t> devices_of(const DownSetPool& pool, const Chain& chain);

}  // namespace rannc::partition
