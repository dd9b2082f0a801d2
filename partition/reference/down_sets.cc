// Enumerates down-sets and finds the best chain among them.
//
// The dynamic program over ideals is from Tarnawski et al. (NeurIPS 2020). The pruning by prefix and suffix loads,
// which makes it fast, is our addition.
#include "partition/reference/down_sets.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "ir/base/split_mix.h"

namespace rannc::partition {
namespace {

constexpr size_t kHopeless = 16;
constexpr size_t kMostBytes = size_t{1} << 30;  // of a complete enumeration
constexpr uint64_t kLook = 1 << 16;             // pairs between two checks for an interrupt

bool bit(std::span<const uint64_t> bits, uint32_t unit) { return bits[unit / 64] >> (unit % 64) & 1; }

}  // namespace

DownSetPool::DownSetPool(const SplitProblem& problem) : problem_(problem), words_((problem.units() + 63) / 64) {
  offset_.push_back(0);
  for (uint32_t u = 0; u < problem.units(); ++u) unit_hash_.push_back(ir::split_mix(u + 1));
  std::vector<uint64_t> bits(words_, 0);
  append(bits, 0, 0, 0, {});
  uint64_t hash = 0, bytes = 0;
  for (uint32_t u = 0; u < problem.units(); ++u) {
    bits[u / 64] |= uint64_t{1} << (u % 64);
    hash ^= unit_hash_[u];
    bytes += problem.bytes[u];
  }
  append(bits, hash, problem.total_work(), bytes, {});
}

uint32_t DownSetPool::find(std::span<const uint64_t> bits, uint64_t hash) const {
  for (auto [it, end] = by_hash_.equal_range(hash); it != end; ++it) {
    if (std::ranges::equal(bits, this->bits(it->second))) return it->second;
  }
  return UINT32_MAX;
}

uint32_t DownSetPool::append(std::span<const uint64_t> bits, uint64_t hash, double work, uint64_t bytes,
                             std::span<const uint32_t> crossing) {
  const uint32_t id = size();
  bits_.insert(bits_.end(), bits.begin(), bits.end());
  hash_.push_back(hash);
  work_.push_back(work);
  bytes_.push_back(bytes);
  double cut = 0;
  for (uint32_t e : crossing) cut += problem_.cost[e];
  cut_.push_back(cut);
  crossing_.insert(crossing_.end(), crossing.begin(), crossing.end());
  offset_.push_back(crossing_.size());
  by_hash_.emplace(hash, id);
  return id;
}

bool DownSetPool::crosses(std::span<const uint64_t> bits, uint32_t value) const {
  const auto pins = problem_.pins.row(value);
  const bool first = bit(bits, pins[0]);
  return std::ranges::any_of(pins.subspan(1), [&](uint32_t pin) { return bit(bits, pin) != first; });
}

bool DownSetPool::subset(uint32_t inner, uint32_t outer) const {
  const uint64_t* a = bits_.data() + size_t{words_} * inner;
  const uint64_t* b = bits_.data() + size_t{words_} * outer;
  for (uint32_t w = 0; w < words_; ++w) {
    if (a[w] & ~b[w]) return false;
  }
  return true;
}

double DownSetPool::load(uint32_t inner, uint32_t outer) const {
  // A value that crosses exactly one of the two cuts has a pin on the device and one elsewhere. One that crosses both
  // counts once, and only if a pin is on the device.
  double load = work_[outer] - work_[inner] + cut_[inner] + cut_[outer];
  const uint32_t *a = crossing_.data() + offset_[inner], *a_end = crossing_.data() + offset_[inner + 1];
  const uint32_t *b = crossing_.data() + offset_[outer], *b_end = crossing_.data() + offset_[outer + 1];
  while (a != a_end && b != b_end) {
    if (*a < *b) {
      ++a;
    } else if (*b < *a) {
      ++b;
    } else {
      load -= problem_.cost[*a];
      const auto pins = problem_.pins.row(*a);
      const bool touches =
          std::ranges::any_of(pins, [&](uint32_t u) { return contains(outer, u) && !contains(inner, u); });
      if (!touches) load -= problem_.cost[*a];
      ++a;
      ++b;
    }
  }
  return load;
}

uint32_t DownSetPool::add(std::span<const uint64_t> bits) {
  uint64_t hash = 0, bytes = 0;
  double work = 0;
  std::vector<uint32_t> crossing;
  for (uint32_t u = 0; u < problem_.units(); ++u) {
    if (!bit(bits, u)) continue;
    hash ^= unit_hash_[u];
    work += problem_.work[u];
    bytes += problem_.bytes[u];
  }
  if (const uint32_t known = find(bits, hash); known != UINT32_MAX) return known;
  for (uint32_t e = 0; e < problem_.cost.size(); ++e) {
    if (crosses(bits, e)) crossing.push_back(e);
  }
  return append(bits, hash, work, bytes, crossing);
}

uint32_t DownSetPool::add_unit(uint32_t set, uint32_t unit) {
  std::vector<uint64_t> bits(this->bits(set).begin(), this->bits(set).end());
  bits[unit / 64] |= uint64_t{1} << (unit % 64);
  const uint64_t hash = hash_[set] ^ unit_hash_[unit];
  if (const uint32_t known = find(bits, hash); known != UINT32_MAX) return known;
  const auto touched = problem_.values.row(unit);
  std::vector<uint32_t> crossing;
  for (uint64_t i = offset_[set]; i < offset_[set + 1]; ++i) {
    if (!std::binary_search(touched.begin(), touched.end(), crossing_[i])) crossing.push_back(crossing_[i]);
  }
  const size_t kept = crossing.size();
  for (uint32_t e : touched) {
    if (crosses(bits, e)) crossing.push_back(e);
  }
  std::inplace_merge(crossing.begin(), crossing.begin() + static_cast<std::ptrdiff_t>(kept), crossing.end());
  return append(bits, hash, work_[set] + problem_.work[unit], bytes_[set] + problem_.bytes[unit], crossing);
}

void DownSetPool::add_prefixes(std::span<const uint32_t> order, size_t most_bytes) {
  std::vector<uint64_t> bits(words_, 0);
  std::vector<uint32_t> inside(problem_.cost.size(), 0);  // pins of each value
  std::set<uint32_t> crossing;
  uint64_t hash = 0, bytes = 0;
  double work = 0;
  const size_t before = bytes_taken();
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const uint32_t unit = order[i];
    bits[unit / 64] |= uint64_t{1} << (unit % 64);
    hash ^= unit_hash_[unit];
    work += problem_.work[unit];
    bytes += problem_.bytes[unit];
    for (const uint32_t e : problem_.values.row(unit)) {
      if (++inside[e] < problem_.pins.row(e).size())
        crossing.insert(e);
      else
        crossing.erase(e);
    }
    const double share = static_cast<double>(i + 1) / static_cast<double>(order.size());
    if (static_cast<double>(bytes_taken() - before) > share * static_cast<double>(most_bytes)) continue;
    if (find(bits, hash) != UINT32_MAX) continue;
    append(bits, hash, work, bytes, std::vector<uint32_t>(crossing.begin(), crossing.end()));
  }
}

bool enumerate_down_sets(DownSetPool& pool, size_t limit, const Interrupt& interrupt) {
  const SplitProblem& problem = pool.problem();
  const uint32_t n = problem.units();
  // Layers by size: a set is expanded once, from the layer that it belongs to, and stores the units that it may take
  // next.
  struct Grown {
    uint32_t set;
    std::vector<uint32_t> ready;
  };
  std::vector<Grown> layer{{DownSetPool::kEmpty, {}}}, next;
  for (uint32_t u = 0; u < n; ++u) {
    if (problem.before.row(u).empty()) layer[0].ready.push_back(u);
  }
  std::vector<bool> known(pool.size(), true);
  for (uint32_t size = 0; size + 1 < n; ++size) {
    // A layer this wide with so many layers to come means that the limit cannot be met; stop before paying for it.
    if (layer.size() * size_t{n - size} > kHopeless * limit || interrupt.requested()) return false;
    next.clear();
    for (const Grown& grown : layer) {
      for (uint32_t u : grown.ready) {
        const uint32_t larger = pool.add_unit(grown.set, u);
        if (larger >= known.size()) known.resize(larger + 1, false);
        if (known[larger]) continue;
        known[larger] = true;
        Grown item{larger, {}};
        for (uint32_t v : grown.ready) {
          if (v != u) item.ready.push_back(v);
        }
        for (uint32_t v : problem.after.row(u)) {
          const auto before = problem.before.row(v);
          if (std::ranges::all_of(before, [&](uint32_t p) { return pool.contains(larger, p); }))
            item.ready.push_back(v);
        }
        next.push_back(std::move(item));
        if (pool.size() > limit || pool.bytes_taken() > kMostBytes) return false;
      }
    }
    layer.swap(next);
  }
  return true;
}

namespace {

/// The dynamic program of `best_chain`, one stage per block.
class ChainSearch {
 public:
  ChainSearch(const DownSetPool& pool, uint32_t devices, double bound, uint64_t most_pairs, const Interrupt& interrupt)
      : interrupt_(interrupt),
        most_pairs_(most_pairs),
        left_(most_pairs),
        pool_(pool),
        devices_(devices),
        total_(pool.work(DownSetPool::kFull)),
        rounding_(total_ * 1e-12),
        stages_(devices + 1),
        reached_(pool.size(), bound) {
    answer_.largest_load = bound;
    by_work_.resize(pool.size());
    std::iota(by_work_.begin(), by_work_.end(), 0);
    std::sort(by_work_.begin(), by_work_.end(), [&](uint32_t a, uint32_t b) {
      return pool.work(a) != pool.work(b) ? pool.work(a) < pool.work(b) : a < b;
    });
  }

  Chain run() {
    stages_[0].push_back({DownSetPool::kEmpty, 0, 0});
    for (uint32_t s = 1; s <= devices_ && answer_.complete; ++s) {
      finish(s);
      if (spent()) answer_.complete = false;
      if (s < devices_ && answer_.complete) extend_all(s);
    }
    answer_.pairs = most_pairs_ - left_ - pairs_;
    return std::move(answer_);
  }

 private:
  struct Entry {
    uint32_t set;
    uint32_t from;  // index in the previous stage
    double best;    // least largest load of a chain that ends here
  };

  /// Ends the chain with block s if that is better than the best so far.
  void finish(uint32_t s) {
    const Entry last = extend(stages_[s - 1], DownSetPool::kFull, answer_.largest_load);
    if (last.from == kNone) return;
    answer_.found = true;
    answer_.largest_load = last.best;
    answer_.sets.clear();
    Entry at = last;
    for (uint32_t stage = s; stage > 1; --stage) {
      at = stages_[stage - 1][at.from];
      answer_.sets.push_back(at.set);
    }
    std::reverse(answer_.sets.begin(), answer_.sets.end());
  }

  /// A stage lists a set only if it reaches it with a smaller largest load than every earlier stage: fewer blocks and
  /// no larger load are as good for all continuations.
  void extend_all(uint32_t s) {
    const double limit = answer_.largest_load;
    for (uint32_t set : by_work_) {
      if (set == DownSetPool::kEmpty || set == DownSetPool::kFull) continue;
      if (pool_.work(set) + pool_.cut(set) >= limit * s) continue;
      if (total_ - pool_.work(set) + pool_.cut(set) >= limit * (devices_ - s)) continue;
      const Entry entry = extend(stages_[s - 1], set, std::min(limit, reached_[set]));
      if (spent()) {
        answer_.complete = false;
        return;
      }
      if (entry.from == kNone) continue;
      reached_[set] = entry.best;
      stages_[s].push_back(entry);
    }
  }

  /// Returns the best predecessor of `set` among the entries of the previous stage, which ascend by work; below
  /// `limit`, or none.
  Entry extend(const std::vector<Entry>& previous, uint32_t set, double limit) {
    Entry entry{set, kNone, limit};
    const double work = pool_.work(set), cut = pool_.cut(set);
    const uint64_t memory = pool_.problem().memory_limit;
    auto it = std::partition_point(previous.begin(), previous.end(),
                                   [&](const Entry& e) { return work - pool_.work(e.set) >= limit; });
    for (; it != previous.end() && pool_.work(it->set) <= work + rounding_ && !spent(); ++it, --pairs_) {
      const double least = work - pool_.work(it->set) + std::abs(cut - pool_.cut(it->set));
      if (it->best >= entry.best || least >= entry.best) continue;
      if (pool_.bytes(set) - pool_.bytes(it->set) > memory || !pool_.subset(it->set, set)) continue;
      const double largest = std::max(it->best, pool_.load(it->set, set));
      if (largest >= entry.best) continue;
      entry.best = largest;
      entry.from = static_cast<uint32_t>(it - previous.begin());
    }
    return entry;
  }

  /// Whether no further pair may be examined. Checks the interrupt periodically.
  bool spent() {
    if (pairs_ > 0) return false;
    if (left_ == 0 || interrupt_.requested()) return true;
    pairs_ = std::min(left_, kLook);
    left_ -= pairs_;
    return false;
  }

  static constexpr uint32_t kNone = UINT32_MAX;
  const Interrupt& interrupt_;
  const uint64_t most_pairs_;
  uint64_t left_;       // pairs left to examine, beside those below
  uint64_t pairs_ = 0;  // pairs left before the next check
  const DownSetPool& pool_;
  uint32_t devices_;
  double total_;
  double rounding_;  // sums of one set differ by order of addition
  std::vector<uint32_t> by_work_;
  std::vector<std::vector<Entry>> stages_;
  std::vector<double> reached_;  // per set: the best of all stages so far
  Chain answer_;
};

}  // namespace

Chain best_chain(const DownSetPool& pool, uint32_t devices, double bound, uint64_t most_pairs,
                 const Interrupt& interrupt) {
  return ChainSearch(pool, devices, bound, most_pairs, interrupt).run();
}

std::vector<uint32_t> devices_of(const DownSetPool& pool, const Chain& chain) {
  std::vector<uint32_t> device_of(pool.problem().units(), 0);
  for (uint32_t u = 0; u < device_of.size(); ++u) {
    while (device_of[u] < chain.sets.size() && !pool.contains(chain.sets[device_of[u]], u)) ++device_of[u];
  }
  return device_of;
}

}  // namespace rannc::partition
