#include "partition/stages/pricing/prices.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partition/transfers.h"

namespace rannc::partition {
namespace {

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

std::vector<Share> shares_of(uint64_t samples, uint64_t most_replicas, uint64_t copies) {
  std::vector<Share> shares;
  const uint64_t most = std::min(samples / copies, most_replicas);
  for (uint64_t replicas = 1; replicas <= most;) {
    const uint64_t share = ceil_div(samples, replicas * copies);
    shares.push_back({share, static_cast<uint32_t>(replicas)});
    if (share == 1) break;
    replicas = ceil_div(ceil_div(samples, share - 1), copies);
  }
  return shares;
}

std::vector<double> blended_prefix(const std::vector<std::vector<double>>& rows, const TimeTable::Blend& blend) {
  const std::vector<double>&low = rows[blend.low], &high = rows[blend.high];
  std::vector<double> sums(low.size() + 1, 0);
  for (size_t b = 0; b < low.size(); ++b) {
    sums[b + 1] = sums[b] + blend.low_weight * low[b] + blend.high_weight * high[b];
  }
  return sums;
}

}  // namespace

StagePrices::StagePrices(const StageProblem& problem, const RangeCosts& ranges, uint64_t micro_batches,
                         uint32_t most_replicas, uint32_t copies)
    : ranges_(&ranges),
      micro_batches_(micro_batches),
      discipline_(problem.in_flight),
      recompute_(problem.recompute),
      kinds_(problem.times.size()),
      samples_(ceil_div(problem.mini_batch, micro_batches)),
      copies_(copies),
      shares_(shares_of(samples_, most_replicas, copies)) {
  for (const Share& share : shares_) {
    for (const TimeTable& table : problem.times) {
      const TimeTable::Blend blend = table.blend(share.samples);
      forward_.push_back(blended_prefix(table.forward, blend));
      backward_.push_back(blended_prefix(table.backward, blend));
    }
  }
}

size_t StagePrices::share_of(uint32_t replicas) const {
  if (static_cast<uint64_t>(replicas) * copies_ > samples_) return shares_.size();
  const auto above = std::upper_bound(shares_.begin(), shares_.end(), replicas,
                                      [](uint32_t count, const Share& share) { return count < share.replicas; });
  return static_cast<size_t>(above - shares_.begin()) - 1;
}

double StagePrices::peak_bytes(uint32_t a, uint32_t b, size_t share, bool recompute, uint32_t from_end) const {
  return bytes(a, b, share, recompute)
      .peak(static_cast<double>(partition::in_flight(discipline_, from_end, micro_batches_)),
            static_cast<double>(micro_batches_));
}

double StagePrices::least_step_ns(uint32_t devices) const {
  double total = 0, heaviest = 0;
  for (uint32_t b = 0; b < ranges_->blocks(); ++b) {
    double work = std::numeric_limits<double>::infinity(), smallest = work;
    for (size_t i = 0; i < shares_.size(); ++i) {
      for (uint32_t kind = 0; kind < kinds_; ++kind) {
        const double time = forward(b, b + 1, i, kind) + backward(b, b + 1, i, kind);
        work = std::min(work, time * shares_[i].replicas);
        smallest = std::min(smallest, time);
      }
    }
    total += work;
    heaviest = std::max(heaviest, smallest);
  }
  // Stay below, because prefix sums round.
  return std::max(total / devices, heaviest) * (1 - 1e-9);
}

uint32_t StagePrices::farthest_from_end(uint32_t a, uint32_t b, size_t share, bool recompute, double memory) const {
  const StageBytes stage = bytes(a, b, share, recompute);
  const double all = static_cast<double>(micro_batches_), standing = stage.standing, each = stage.in_flight;
  if (stage.peak(1, all) > memory) return 0;
  if (discipline_ == InFlight::kOne || stage.peak(all, all) <= memory) return UINT32_MAX;
  if (discipline_ == InFlight::kAll) return 0;
  // The division may round up or down: decide by the comparison that `peak_bytes` makes.
  double most = std::floor((memory - standing) / each);
  while (standing + each * most > memory) --most;
  while (standing + each * (most + 1) <= memory) ++most;
  return discipline_ == InFlight::kOneFOneB ? static_cast<uint32_t>(most) : (static_cast<uint32_t>(most) + 1) / 2;
}

double all_reduce_ns(double bytes, uint64_t replicas, const Link& link) {
  if (replicas < 2 || bytes <= 0) return 0;
  return ring_ns(bytes, static_cast<double>(replicas), link);
}

double memory_of(const StageProblem& problem, DeviceId device) {
  const double own = static_cast<double>(problem.cluster.kind_of(device).memory_bytes);
  const auto& limit = problem.constraints.memory_bytes;
  return limit ? std::min(own, static_cast<double>(*limit)) : own;
}

}  // namespace rannc::partition
