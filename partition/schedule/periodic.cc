/// Builds periodic patterns and unrolls them into rows.
#include "partition/schedule/periodic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace rannc::partition {
namespace {

using ir::ActionKind;

/// Sums of equal times differ in their last bits.
double tolerance(double period) { return 1e-9 * period; }

/// 1F1B* of a chain that already contains hops as stages.
Pattern star_of_chain(std::span<const double> forward, std::span<const double> backward, double period) {
  const size_t n = forward.size();
  std::vector<double> loads(n);
  for (size_t s = 0; s < n; ++s) loads[s] = forward[s] + backward[s];
  const std::vector<uint32_t> group = star_groups(loads, period);
  Pattern pattern;
  pattern.period = period;
  double time = 0;
  for (size_t s = 0; s < n; ++s) {  // forwards without idle time
    pattern.forward_start.push_back(time);
    pattern.forward_end.push_back(time += forward[s]);
  }
  pattern.backward_start.resize(n);
  pattern.backward_end.resize(n);
  for (size_t s = n; s-- > 0;) {
    // The last stage of group g turns around at once, with the batch g−1 behind the one that it just processed.
    const bool turns = s + 1 == n || group[s + 1] != group[s];
    pattern.backward_start[s] = turns ? pattern.forward_end[s] + (group[s] - 1) * period : pattern.backward_end[s + 1];
    pattern.backward_end[s] = pattern.backward_start[s] + backward[s];
  }
  return pattern;
}

/// Busy times of a device within a period, as offsets in [0, period).
class Circle {
 public:
  explicit Circle(double period) : period_(period) {}

  /// Returns the earliest start at or after `ready` for an operation of `length`; negative if no gap is long enough.
  double earliest(double ready, double length) const {
    if (length > period_ + tolerance(period_)) return -1;
    double best = -1;
    const auto consider = [&](double offset) {
      const double start = next(ready, offset);
      if (fits(start, length) && (best < 0 || start < best)) best = start;
    };
    consider(std::fmod(ready, period_));
    for (const auto& [start, taken] : busy_) consider(std::fmod(start + taken, period_));
    return best;
  }

  void take(double start, double length) {
    if (length > 0) busy_.emplace_back(std::fmod(start, period_), length);
  }

  /// Returns the first time at or after `ready` with that offset.
  double next(double ready, double offset) const {
    const double periods = std::ceil((ready - offset - tolerance(period_)) / period_);
    return std::max(ready, offset + std::max(0.0, periods) * period_);
  }

 private:
  bool fits(double start, double length) const {
    for (const auto& [other, taken] : busy_) {
      double gap = std::fmod(other - std::fmod(start, period_) + period_, period_);  // until the other one starts
      if (gap > period_ - tolerance(period_)) gap = 0;
      if (gap < length - tolerance(period_) || period_ - gap < taken - tolerance(period_)) return false;
    }
    return true;
  }

  double period_;
  std::vector<std::pair<double, double>> busy_;
};

/// Places the operations of one batch, forwards in stage order, then backwards in reverse.
class Placer {
 public:
  Placer(const ir::PipelineShape& shape, const ChainTimes& times, double period)
      : shape_(shape), times_(times), period_(period), packed_(shape.devices, false), packed_end_(shape.devices, 0) {}

  Pattern run() {
    while (!try_all()) {
    }
    return std::move(pattern_);
  }

 private:
  bool try_all() {
    const size_t n = shape_.stages.size();
    pattern_ = Pattern{period_, std::vector<double>(n), std::vector<double>(n), std::vector<double>(n),
                       std::vector<double>(n)};
    circles_.assign(shape_.devices, Circle(period_));
    std::fill(packed_end_.begin(), packed_end_.end(), 0);
    for (size_t s = 0; s < n; ++s) {
      if (!place(s, forward_ready(s), times_.forward[s], pattern_.forward_start[s], pattern_.forward_end[s]))
        return false;
    }
    for (size_t s = n; s-- > 0;) {
      if (!place(s, backward_ready(s), times_.backward[s], pattern_.backward_start[s], pattern_.backward_end[s]))
        return false;
    }
    return true;
  }

  double hop(size_t from, size_t to) const {
    double longest = 0;
    for (size_t s = from; s < to && s < times_.hop.size(); ++s) longest = std::max(longest, times_.hop[s]);
    return longest;
  }

  double forward_ready(size_t s) const {
    double ready = 0;
    for (const ir::RouteShape& route : shape_.routes) {
      const size_t from = route.producer.index();
      if (route.consumer.index() == s) ready = std::max(ready, pattern_.forward_end[from] + hop(from, s));
    }
    return ready;
  }

  double backward_ready(size_t s) const {
    double ready = pattern_.forward_end[s];
    for (const ir::RouteShape& route : shape_.routes) {
      const size_t to = route.consumer.index();
      if (route.producer.index() == s) ready = std::max(ready, pattern_.backward_end[to] + hop(s, to));
    }
    return ready;
  }

  /// All devices of a stage hold the same stages, so the first represents all.
  bool place(size_t s, double ready, double length, double& start, double& end) {
    const uint32_t device = shape_.stages[s].devices[0].index();
    if (packed_[device]) {
      start = circles_[device].next(ready, packed_end_[device]);
      packed_end_[device] += length;
    } else {
      start = circles_[device].earliest(ready, length);
      if (start < 0) {
        packed_[device] = true;
        return false;
      }
      circles_[device].take(start, length);
    }
    end = start + length;
    return true;
  }

  const ir::PipelineShape& shape_;
  const ChainTimes& times_;
  const double period_;
  std::vector<bool> packed_;
  std::vector<double> packed_end_;
  std::vector<Circle> circles_;
  Pattern pattern_;
};

Diagnostic too_short(double period, double smallest) {
  return error(fmt::format("a period of {} is less than {}, the largest load of a device or link", period, smallest));
}

}  // namespace

uint32_t Pattern::concurrent(size_t stage) const {
  const double span = backward_end[stage] - forward_start[stage];
  return static_cast<uint32_t>(std::max(1.0, std::ceil((span - tolerance(period)) / period)));
}

std::vector<uint32_t> star_groups(std::span<const double> loads, double period) {
  std::vector<uint32_t> group(loads.size(), 1);
  double load = 0;
  uint32_t number = 1;
  for (size_t s = loads.size(); s-- > 0;) {
    if (load + loads[s] > period + tolerance(period)) {
      ++number;
      load = 0;
    }
    load += loads[s];
    group[s] = number;
  }
  return group;
}

Result<Pattern> one_f_one_b_star(const ChainTimes& times, double period) {
  std::vector<double> forward, backward;
  double smallest = 0;
  for (size_t s = 0; s < times.forward.size(); ++s) {
    if (s > 0 && !times.hop.empty()) {
      forward.push_back(times.hop[s - 1]);
      backward.push_back(times.hop[s - 1]);
    }
    forward.push_back(times.forward[s]);
    backward.push_back(times.backward[s]);
  }
  for (size_t i = 0; i < forward.size(); ++i) smallest = std::max(smallest, forward[i] + backward[i]);
  if (period < smallest - tolerance(smallest)) return too_short(period, smallest);
  Pattern pattern = star_of_chain(forward, backward, period);
  if (times.hop.empty()) return pattern;
  for (auto* part : {&pattern.forward_start, &pattern.forward_end, &pattern.backward_start, &pattern.backward_end}) {
    for (size_t s = 0; 2 * s < part->size(); ++s) (*part)[s] = (*part)[2 * s];
    part->resize(times.forward.size());
  }
  return pattern;
}

/// Number of parts of one transfer. Each deepens the warm-up by at most one, and no schedule has that many
/// micro-batches.
constexpr double kMostPieces = 1 << 16;

std::vector<uint32_t> warmup_by_latency(const ChainTimes& times, std::span<const uint32_t> most) {
  const size_t p = times.forward.size();
  double period = 0;
  for (size_t s = 0; s < p; ++s) period = std::max(period, times.forward[s] + times.backward[s]);
  std::vector<double> loads;
  std::vector<size_t> place;  // of each stage in `loads`
  for (size_t s = 0; s < p; ++s) {
    if (s > 0 && !times.hop.empty() && period > 0) {
      const double both_ways = 2 * times.hop[s - 1];
      const auto pieces = static_cast<size_t>(std::min(std::ceil(both_ways / period - 1e-9), kMostPieces));
      const double piece = both_ways / static_cast<double>(std::max<size_t>(pieces, 1));
      loads.insert(loads.end(), pieces, std::min(piece, period));
    }
    place.push_back(loads.size());
    loads.push_back(times.forward[s] + times.backward[s]);
  }
  const std::vector<uint32_t> group = star_groups(loads, period);
  std::vector<uint32_t> depth;
  for (size_t s = 0; s < p; ++s) {
    depth.push_back(group[place[s]]);
    if (!most.empty()) depth[s] = std::clamp(depth[s], 1u, std::max(1u, most[s]));
    if (s > 0) depth[s] = std::min(depth[s], depth[s - 1]);
  }
  return depth;
}

uint32_t default_k(const ChainTimes& times, double period) {
  double smallest = 0;
  for (size_t s = 0; s < times.forward.size(); ++s) smallest = std::max(smallest, times.forward[s] + times.backward[s]);
  for (const double hop : times.hop) smallest = std::max(smallest, 2 * hop);
  const auto pattern = one_f_one_b_star(times, std::max(period, smallest));
  const uint32_t concurrent = pattern.ok() && !times.forward.empty() ? pattern->concurrent(0) : 1;
  return std::max(concurrent, 2u) - 1;
}

double smallest_period(const ir::PipelineShape& shape, const ChainTimes& times) {
  std::vector<double> load(shape.devices, 0);
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    for (DeviceId device : shape.stages[s].devices) load[device.index()] += times.forward[s] + times.backward[s];
  }
  double smallest = 0;
  for (double l : load) smallest = std::max(smallest, l);
  for (double hop : times.hop) smallest = std::max(smallest, 2 * hop);
  return smallest;
}

Result<Pattern> allocation_pattern(const ir::PipelineShape& shape, const ChainTimes& times, double period) {
  const double smallest = smallest_period(shape, times);
  if (period < smallest - tolerance(smallest)) return too_short(period, smallest);
  for (const ir::StageShape& a : shape.stages) {
    for (const ir::StageShape& b : shape.stages) {
      const bool overlap = std::any_of(a.devices.begin(), a.devices.end(), [&](DeviceId device) {
        return std::find(b.devices.begin(), b.devices.end(), device) != b.devices.end();
      });
      if (!overlap || a.devices == b.devices) continue;
      return error(
          fmt::format("stages {} and {} share some of their devices, not all; a periodic pattern cannot keep "
                      "their replicas in step",
                      &a - shape.stages.data(), &b - shape.stages.data()));
    }
  }
  return Placer(shape, times, period).run();
}

Rows pattern_rows(const ir::PipelineShape& shape, const Pattern& pattern, uint32_t k) {
  // Start, batch, backward, position: the operations of a batch run in order even if some take no time.
  using Entry = std::tuple<double, uint32_t, bool, uint32_t>;
  const auto stages = static_cast<uint32_t>(shape.stages.size());
  Rows rows(shape.devices);
  for (uint32_t d = 0; d < shape.devices; ++d) {
    std::vector<Entry> entries;
    for (uint32_t s = 0; s < stages; ++s) {
      const auto& devices = shape.stages[s].devices;
      if (std::find(devices.begin(), devices.end(), DeviceId(d)) == devices.end()) continue;
      for (uint32_t j = 0; j < shape.micro_batch_count(); ++j) {
        const double shift = (k == 0 ? j : j / k * (k + 1) + j % k) * pattern.period;
        entries.emplace_back(pattern.forward_start[s] + shift, j, false, s);
        entries.emplace_back(pattern.backward_start[s] + shift, j, true, stages - 1 - s);
      }
    }
    std::sort(entries.begin(), entries.end());
    for (const auto& [start, batch, backward, position] : entries) {
      const StageId stage(backward ? stages - 1 - position : position);
      rows[d].push_back(ir::compute_action(backward ? ActionKind::kBackward : ActionKind::kForward, stage, batch));
    }
  }
  return rows;
}

}  // namespace rannc::partition
