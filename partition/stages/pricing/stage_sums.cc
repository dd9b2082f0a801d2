#include "partition/stages/pricing/stage_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace rannc::partition {
namespace {

/// Bytes of the gradients of each block, and of those that other stages have too.
std::vector<double> bytes_by_block(const StageProblem& problem, uint32_t a, uint32_t b) {
  std::vector<double> bytes(b - a + 1, 0);
  for (uint32_t block = a; block < b; ++block) bytes[block - a] = gradient_bytes(problem, block);
  for (const SharedHolding& holding : problem.shared) {
    const auto first = std::lower_bound(holding.blocks.begin(), holding.blocks.end(), a);
    const bool inside = first != holding.blocks.end() && *first < b;
    if (!inside || holding.kind != SharedHolding::Kind::kParameter) continue;
    const bool others = holding.blocks.front() < a || holding.blocks.back() >= b;
    bytes[others ? b - a : *first - a] += holding.gradient_bytes();
  }
  return bytes;
}

/// Limit of the bytes of gradients of several blocks that are summed together.
double joined_bytes(const StageProblem& problem, uint32_t a, uint32_t b, const std::vector<double>& bytes) {
  double largest = 0;
  for (uint32_t block = a; block < b; ++block) {
    largest =
        std::max(largest, problem.largest_gradients.empty() ? bytes[block - a]
                                                            : problem.largest_gradients[block] * ir::kLargestGradients);
  }
  return std::min(largest, static_cast<double>(problem.bucket_bytes));
}

}  // namespace

double sums_of_block(const StageProblem& problem, uint32_t block, double bytes, double joined) {
  double bucket = static_cast<double>(problem.bucket_bytes);
  if (!problem.largest_gradients.empty()) {
    const double largest = problem.largest_gradients[block];
    bucket = std::max({std::min(bucket, ir::kLargestGradients * largest), largest, joined});
  }
  return bucket > 0 ? std::max(1.0, std::ceil(bytes / bucket)) : 1;
}

std::vector<SumCost> stage_sums(const StageProblem& problem, uint32_t a, uint32_t b, const std::vector<double>& ahead,
                                const SumTimes& times) {
  const std::vector<double> bytes = bytes_by_block(problem, a, b);
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0), most = joined_bytes(problem, a, b, bytes);
  double open = 0;
  std::vector<SumCost> sums;
  for (uint32_t i = b - a; i-- > 0;) {
    if (bytes[i] <= 0) continue;
    const double time = times.sum * (bytes[i] / all), count = sums_of_block(problem, a + i, bytes[i], most);
    if (count > 1) {
      // Sum j = 1 … n is final when (n - j) / n of the block's pass are left. Those before it delay all but the first.
      const double pass = (ahead[i + 1] - ahead[i]) / count, each = time / count;
      const double first = ahead[i] + (count - 1) * pass, last = ahead[i] + pass + (count - 2) * each;
      sums.push_back({(count - 1) * each, std::min(first, last)});
      sums.push_back({each, ahead[i]});
      open = kInfinity;
      continue;
    }
    if (sums.empty() || open + bytes[i] > most) {
      sums.emplace_back();
      open = 0;
    }
    open += bytes[i];
    sums.back().duration += time;
    sums.back().ahead = ahead[i];
  }
  if (bytes.back() > 0) sums.push_back({times.sum * (bytes.back() / all), 0});
  if (times.gather > 0) sums.push_back({times.gather, 0});
  return sums;
}

double exposed_ns(const std::vector<SumCost>& sums) {
  double from_here = 0, exposed = 0;
  for (size_t i = sums.size(); i-- > 0;) {
    from_here += sums[i].duration;
    exposed = std::max(exposed, from_here - sums[i].ahead);
  }
  return exposed;
}

std::vector<SumCost> even_sums(const std::vector<SumCost>& sums, uint32_t most) {
  double length = 0;
  for (const SumCost& sum : sums) length += sum.duration / most;
  std::vector<SumCost> even;
  SumCost open{0, kInfinity};
  for (SumCost left : sums) {
    while (left.duration > 0) {
      // A part behind others of the same sum begins when they have ended, or later.
      const double part = std::min(left.duration, length - open.duration);
      open.ahead = std::min(open.ahead, left.ahead + open.duration);
      open.duration += part;
      left.duration -= part;
      if (open.duration >= length * (1 - 1e-9)) even.push_back(std::exchange(open, {0, kInfinity}));
    }
  }
  if (open.duration > 0) even.push_back(open);
  return even;
}

}  // namespace rannc::partition
