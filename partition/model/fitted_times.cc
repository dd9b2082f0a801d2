#include "partition/model/fitted_times.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace rannc::partition {

namespace {

constexpr int kSweeps = 100;
constexpr double kMostFactor = 100;  // factors beyond do not compare the same work

/// A measured stage for one number of samples and one kind of pass.
struct Target {
  uint32_t first = 0, end = 0;
  double measured_ns = 0;
};

double clamped(double factor) { return std::clamp(factor, 1 / kMostFactor, kMostFactor); }

double sum_of(const std::vector<double>& blocks, const Target& target) {
  double sum = 0;
  for (uint32_t b = target.first; b < target.end; ++b) sum += blocks[b];
  return sum;
}

/// Returns a factor per block.
std::vector<double> fitted(const std::vector<double>& priced, const std::vector<Target>& targets) {
  double measured = 0, summed = 0;
  for (const Target& target : targets) {
    measured += target.measured_ns;
    summed += sum_of(priced, target);
  }
  const double mean = measured > 0 && summed > 0 ? clamped(measured / summed) : 1;
  std::vector<double> factors(priced.size(), mean);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    std::vector<double> scaled(priced.size()), ratios(priced.size(), 0);
    std::vector<uint32_t> stages(priced.size(), 0);
    for (size_t b = 0; b < priced.size(); ++b) scaled[b] = priced[b] * factors[b];
    for (const Target& target : targets) {
      const double sum = sum_of(scaled, target);
      if (sum <= 0 || target.measured_ns <= 0) continue;
      for (uint32_t b = target.first; b < target.end; ++b) {
        ratios[b] += target.measured_ns / sum;
        ++stages[b];
      }
    }
    for (size_t b = 0; b < priced.size(); ++b) {
      if (stages[b] > 0) factors[b] = clamped(factors[b] * ratios[b] / stages[b]);
    }
  }
  return factors;
}

/// Times of the blocks at a number of samples.
std::vector<double> times_at(const TimeTable& table, const std::vector<std::vector<double>>& rows, uint64_t samples) {
  const TimeTable::Blend blend = table.blend(samples);
  std::vector<double> times(rows[blend.low].size());
  for (size_t b = 0; b < times.size(); ++b) {
    times[b] = blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
  }
  return times;
}

using Factors = std::map<uint64_t, std::vector<double>>;  // by samples

Factors factors_of(const TimeTable& table, const std::vector<std::vector<double>>& rows,
                   const std::map<uint64_t, std::vector<Target>>& targets) {
  Factors factors;
  for (const auto& [samples, of_samples] : targets)
    factors[samples] = fitted(times_at(table, rows, samples), of_samples);
  return factors;
}

/// Interpolates linearly between numbers of samples, constant beyond them.
double factor_at(const Factors& factors, uint64_t samples, size_t block) {
  const auto high = factors.lower_bound(samples);
  if (high == factors.end()) return factors.rbegin()->second[block];
  if (high == factors.begin() || high->first == samples) return high->second[block];
  const auto low = std::prev(high);
  const double share = static_cast<double>(samples - low->first) / static_cast<double>(high->first - low->first);
  return (1 - share) * low->second[block] + share * high->second[block];
}

void scale(const std::vector<uint64_t>& sizes, const Factors& factors, std::vector<std::vector<double>>& rows) {
  for (size_t size = 0; size < rows.size(); ++size) {
    for (size_t b = 0; b < rows[size].size(); ++b) rows[size][b] *= factor_at(factors, sizes[size], b);
  }
}

}  // namespace

std::vector<TimeTable> fitted_times(const StageProblem& problem) {
  std::vector<TimeTable> times = problem.times;
  for (uint32_t kind = 0; kind < times.size(); ++kind) {
    std::map<uint64_t, std::vector<Target>> forward, backward;
    for (const auto& [run, measured] : problem.measured) {
      if (run.kind != kind) continue;
      forward[run.samples].push_back({run.first, run.end, measured.forward_ns});
      backward[run.samples].push_back({run.first, run.end, measured.backward_ns});
    }
    if (forward.empty()) continue;
    TimeTable& table = times[kind];
    const Factors of_forward = factors_of(table, table.forward, forward);
    const Factors of_backward = factors_of(table, table.backward, backward);
    scale(table.sizes, of_forward, table.forward);
    scale(table.sizes, of_backward, table.backward);
    scale(table.sizes, of_backward, table.weight_gradient);
    table.make_monotone();
  }
  return times;
}

}  // namespace rannc::partition
