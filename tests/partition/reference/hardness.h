/// The constructions by which planning pipelines is proved hard (Beaumont, Theorems 1 and 2), from 3-partition.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "partition/reference/split_problem.h"
#include "partition/schedule/periodic.h"

namespace rannc::partition::testing {

/// 3m numbers between V/4 and V/2 of which m triples sum to V each: the question has the answer yes.
struct ThreePartition {
  static constexpr double kSum = 1000;  ///< V
  std::vector<double> numbers;
  uint32_t parts = 0;  ///< m
};

inline ThreePartition three_partition(uint32_t parts, uint64_t seed) {
  std::mt19937_64 random(seed);
  ThreePartition instance{{}, parts};
  while (instance.numbers.size() < 3 * parts) {
    const double a = static_cast<double>(251 + random() % 249), b = static_cast<double>(251 + random() % 249);
    const double c = ThreePartition::kSum - a - b;
    if (c > 250 && c < 500) instance.numbers.insert(instance.numbers.end(), {a, b, c});
  }
  for (size_t i = instance.numbers.size(); i > 1; --i)
    std::swap(instance.numbers[i - 1], instance.numbers[random() % i]);
  return instance;
}

/// Theorem 1: layers without activations, weights or order on m devices; the least largest load is V.
inline Result<SplitProblem> theorem_one(const ThreePartition& instance) {
  SplitSource source;
  source.work = instance.numbers;
  source.bytes.assign(instance.numbers.size(), 0);
  source.group.resize(instance.numbers.size());
  std::iota(source.group.begin(), source.group.end(), 0);
  return make_split_problem(source);
}

/// Theorem 2: 6m layers on two devices by a fixed allocation, memory for m activations; the least period is 2mV.
struct FixedAllocation {
  ir::PipelineShape shape;
  ChainTimes times;
  double period = 0;    ///< of the best schedule
  uint32_t memory = 0;  ///< activations per device
  double total = 0;     ///< work of a batch: at this period nothing overlaps
};

inline FixedAllocation theorem_two(const ThreePartition& instance) {
  const uint32_t m = instance.parts;
  FixedAllocation hard;
  hard.shape = ir::chain_shape(6 * m, 4);
  hard.shape.devices = 2;
  for (uint32_t l = 1; l <= 6 * m; ++l) {
    const bool numbered = l > m && l <= 4 * m, last = l > 4 * m;
    hard.shape.stages[l - 1].devices = {DeviceId(numbered || (last && l % 2 == 0) ? 0 : 1)};
    hard.shape.stages[l - 1].saved_bytes = last;
    hard.times.forward.push_back(numbered ? instance.numbers[l - m - 1] : ThreePartition::kSum);
  }
  hard.times.backward.assign(6 * m, 0);
  hard.period = 2 * m * ThreePartition::kSum;
  hard.memory = m;
  hard.total = std::accumulate(hard.times.forward.begin(), hard.times.forward.end(), 0.0);
  return hard;
}

/// The least period, in steps of 2 %, at which our pattern keeps to the memory.
inline double found_period(const FixedAllocation& hard) {
  for (double period = smallest_period(hard.shape, hard.times); period < 2 * hard.total; period *= 1.02) {
    const auto pattern = allocation_pattern(hard.shape, hard.times, period);
    if (!pattern.ok()) continue;
    uint32_t held[2] = {0, 0};
    for (size_t s = 0; s < hard.shape.stages.size(); ++s) {
      if (hard.shape.stages[s].saved_bytes > 0) held[hard.shape.stages[s].devices[0].index()] += pattern->concurrent(s);
    }
    if (std::max(held[0], held[1]) <= hard.memory) return period;
  }
  return 2 * hard.total;
}

}  // namespace rannc::partition::testing
