/// Figures that the literature gives for schedules, for tests and benchmark.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "partition/schedule/make_schedule.h"
#include "partition/schedule/periodic.h"
#include "partition/schedule/simulate.h"
#include "tests/partition/schedule/shapes.h"

namespace rannc::partition::published {

/// Makespans at zero latency under a global barrier, F/I/W of a whole rank; 0: not given.
struct Bubble {
  const char* name;
  StageLayout layout;
  double p4_m8_equal;    ///< p=4, m=8, 1/1/1
  double p8_m24_equal;   ///< p=8, m=24, 1/1/1
  double p8_m24_skewed;  ///< p=8, m=24, 1/1.2/0.8
  double largest_peak;   ///< p=8, m=24, in activations of a whole rank
};

inline const std::vector<Bubble>& bubbles() {
  static const std::vector<Bubble> kRows = {{"gpipe", StageLayout::kOnePerRank, 33, 93, 93, 24},
                                            {"1f1b", StageLayout::kOnePerRank, 33, 93, 93, 8},
                                            {"interleaved", StageLayout::kLoop, 28.5, 82.5, 82.5, 11.5},
                                            {"zb-h1", StageLayout::kOnePerRank, 27, 79, 81.8, 8},
                                            {"zb-h2", StageLayout::kOnePerRank, 27, 79, 79, 15},
                                            {"zb-v", StageLayout::kV, 25.5, 75.5, 76.2, 8},
                                            {"v-half", StageLayout::kV, 0, 80.5, 83.5, 5},
                                            {"v-min", StageLayout::kV, 0, 85.5, 100.5, 4}};
  return kRows;
}

/// Tables 5 and 9 of "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241): measured times of a pass in ms, and bubble
/// rates computed from them: 1 - m(F+I+W) / cost, where cost is the longest span of a stage from its first pass to its
/// last. ZB-1p and ZB-2p are searched with memory for p and 2p micro-batches.
struct ZeroBubble {
  const char* model;
  uint32_t p, m;
  double forward, input_gradient, weight_gradient, latency;
  double one_f_one_b, zb_h1, zb_h2, zb_1p, zb_2p;
};

inline const std::vector<ZeroBubble>& zero_bubbles() {
  static const std::vector<ZeroBubble> kRows = {
      {"1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083, 0.1585, 0.0433},
      {"1.5B", 8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0837, 0.1242, 0.0039},
      {"1.5B", 8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444, 0.0674, 0.0026},
      {"6.2B", 8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0698, 0.1323, 0.0029},
      {"6.2B", 8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0559, 0.1045, 0.0022},
      {"6.2B", 8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0294, 0.0554, 0.0010},
      {"14.6B", 16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0672, 0.1397, 0.0066},
      {"14.6B", 16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.1088, 0.0516, 0.1088, 0.0054},
      {"14.6B", 16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576, 0.0266, 0.0576, 0.0028},
      {"28.3B", 32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1421, 0.0641, 0.1421, 0.0038},
      {"28.3B", 32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.0490, 0.1106, 0.0029},
      {"28.3B", 32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0594, 0.0257, 0.0594, 0.0018}};
  return kRows;
}

/// The bubble rate as that paper defines it.
inline double bubble_rate(const ZeroBubble& row, const Timeline& timeline) {
  double cost = 0;
  for (const DeviceTimeline& device : timeline.devices) cost = std::max(cost, device.last - device.first);
  return 1 - row.m * (row.forward + row.input_gradient + row.weight_gradient) / cost;
}

/// The same of a named schedule.
inline double bubble_rate(const ZeroBubble& row, const char* schedule) {
  const auto shape = ir::chain_shape(row.p, row.m);
  const ComputeTimes times{row.forward, row.input_gradient, row.weight_gradient, 0};
  const auto rows = make_schedule(shape, {.name = schedule}).value();
  return bubble_rate(row, simulate(shape, rows, uniform_costs(shape, times, row.latency)).value());
}

/// Makespans with one-way latency, p=4, m=16, F=1, B=2 (DAPPLE's warm-up policies).
struct Latency {
  double latency, gpipe, policy_a, policy_b;
};

inline const std::vector<Latency>& latencies() {
  static const std::vector<Latency> kRows = {
      {0, 57, 57, 57}, {0.25, 58.5, 64, 58.5}, {0.5, 60, 71, 60}, {1, 63, 85, 63}};
  return kRows;
}

/// Group numbers of 1F1B*(T), which are the concurrent activations of each stage.
struct Star {
  std::vector<double> loads;
  double period;
  std::vector<uint32_t> activations;
};

inline const std::vector<Star>& stars() {
  static const std::vector<Star> kRows = {{{3, 1, 2, 2, 4}, 4, {3, 3, 2, 2, 1}},
                                          {{3, 1, 2, 2, 4}, 5, {3, 2, 2, 2, 1}},
                                          {{3, 1, 2, 2, 4}, 6, {2, 2, 2, 1, 1}},
                                          {{3, 1, 2, 2, 4}, 12, {1, 1, 1, 1, 1}},
                                          {{2, 2, 2, 2, 2, 2, 2, 2}, 2, {8, 7, 6, 5, 4, 3, 2, 1}},
                                          {{2, 2, 2, 2, 2, 2, 2, 2}, 4, {4, 4, 3, 3, 2, 2, 1, 1}},
                                          {{2, 2, 2}, 2, {3, 2, 1}}};
  return kRows;
}

/// A chain on given devices, with the period that the allocation allows.
struct Allocation {
  std::string name;
  std::vector<double> loads;
  std::vector<uint32_t> device_of;
  uint32_t devices = 0;
  double period = 0;
  std::vector<int64_t> weights = {};  ///< per layer; empty: none has any
  int64_t memory = 0;                 ///< of a device; 0: no limit
};

/// Theorem 5: k parts (k, e, k−1, e), e = 1/(2k+1), then k, (k−2)(2k+1)+1 times e, and 1.
inline Allocation theorem_five(uint32_t k) {
  Allocation chain{"theorem 5, k=" + std::to_string(k), {}, {}, 2 * k + 1, static_cast<double>(k)};
  uint32_t small = 0;  // 2k+1 layers of e fill each of the devices k+2 … 2k, which have a layer of k−1
  const auto add = [&](double load, uint32_t device) {
    chain.loads.push_back(load);
    chain.device_of.push_back(device);
  };
  const auto add_small = [&] { add(1.0 / chain.devices, k + 2 + small++ / chain.devices); };
  for (uint32_t part = 0; part < k; ++part) {
    add(k, part);
    add_small();
    add(k - 1.0, k + 1 + part);
    add_small();
  }
  add(k, k);
  for (uint32_t i = 0; i < (k - 2) * chain.devices + 1; ++i) add_small();
  add(1, k + 1);
  return chain;
}

/// Theorem 6: k layers (cost 1, weight M−1), one (k, M), k layers (k−1, 1) on k+2 devices of M = k.
inline Allocation theorem_six(uint32_t k) {
  Allocation chain{"theorem 6, k=" + std::to_string(k), {}, {}, k + 2, static_cast<double>(k), {}, k};
  for (uint32_t i = 0; i < 2 * k + 1; ++i) {
    chain.loads.push_back(i < k ? 1.0 : i == k ? k : k - 1.0);
    chain.weights.push_back(i < k ? k - 1 : i == k ? k : 1);
    chain.device_of.push_back(i <= k ? i : i - k - 1);
  }
  return chain;
}

/// Chain (1, 2, 1) on two devices.
inline Allocation three_layers() { return {"chain (1,2,1)", {1, 2, 1}, {0, 1, 0}, 2, 2}; }

/// F takes a third and B two thirds of each load.
inline ChainTimes split(const std::vector<double>& loads) {
  ChainTimes times;
  for (double load : loads) {
    times.forward.push_back(load / 3);
    times.backward.push_back(load * 2 / 3);
  }
  return times;
}

/// Without activations, as in section 6.2.
inline ir::PipelineShape shape_of(const Allocation& chain, uint32_t batches) {
  ir::PipelineShape shape = ir::chain_shape(static_cast<uint32_t>(chain.loads.size()), batches);
  shape.devices = chain.devices;
  if (chain.memory > 0) shape.memory_bytes.assign(chain.devices, chain.memory);
  for (size_t s = 0; s < chain.loads.size(); ++s) {
    shape.stages[s].devices = {DeviceId(chain.device_of[s])};
    shape.stages[s].saved_bytes = 0;
    if (!chain.weights.empty()) shape.stages[s].fixed_bytes = chain.weights[s];
  }
  return shape;
}

/// Smallest largest load of contiguous parts within the memory, by the textbook recurrence; 1e300 where none fits.
inline double best_contiguous(const Allocation& chain) {
  const size_t n = chain.loads.size();
  std::vector<double> best(n + 1, 1e300);
  best[0] = 0;
  for (uint32_t part = 0; part < chain.devices; ++part) {
    std::vector<double> next = best;
    for (size_t end = 1; end <= n; ++end) {
      double load = 0;
      int64_t weight = 0;
      for (size_t begin = end; begin-- > 0;) {
        load += chain.loads[begin];
        if (!chain.weights.empty()) weight += chain.weights[begin];
        if (chain.memory > 0 && weight > chain.memory) break;
        next[end] = std::min(next[end], std::max(best[begin], load));
      }
    }
    best = next;
  }
  return best[n];
}

}  // namespace rannc::partition::published
