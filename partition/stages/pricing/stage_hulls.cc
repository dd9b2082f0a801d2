#include "partition/stages/pricing/stage_hulls.h"

#include <algorithm>

namespace rannc::partition {

namespace {

/// Returns the points below which no chord of others passes, given points by ascending bytes.
std::vector<RebuildPoint> lower_hull(const std::vector<RebuildPoint>& points) {
  std::vector<RebuildPoint> hull;
  for (const RebuildPoint& point : points) {
    const auto above = [&](const RebuildPoint& left, const RebuildPoint& middle) {
      return (left.share - middle.share) * (point.bytes_per_sample - left.bytes_per_sample) <=
             (left.share - point.share) * (middle.bytes_per_sample - left.bytes_per_sample);
    };
    while (hull.size() > 1 && above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(point);
  }
  return hull;
}

}  // namespace

StageHulls::StageHulls(const StageProblem& problem) {
  if (problem.rebuild_hulls.empty()) return;
  forward_.assign(1, 0);
  bytes_ = ns_ = forward_;
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    add(b, lower_hull(problem.rebuild_hulls[b]), problem.times.front().forward.back()[b]);
  }
  std::stable_sort(segments_.begin(), segments_.end(),
                   [](const Segment& a, const Segment& b) { return a.ns * b.bytes > b.ns * a.bytes; });
}

void StageHulls::add(uint32_t block, const std::vector<RebuildPoint>& points, double forward_ns) {
  forward_.push_back(forward_.back() + forward_ns);
  bytes_.push_back(bytes_.back() + points.front().bytes_per_sample);
  ns_.push_back(ns_.back() + points.front().share * forward_ns);
  for (size_t i = 1; i < points.size(); ++i) {
    segments_.push_back({block, points[i].bytes_per_sample - points[i - 1].bytes_per_sample,
                         (points[i - 1].share - points[i].share) * forward_ns});
  }
}

std::vector<RebuildPoint> StageHulls::of(uint32_t a, uint32_t b) const {
  std::vector<RebuildPoint> points = {{0, 1}};
  const double forward = forward_[b] - forward_[a];
  if (!(forward > 0)) return points;
  double bytes = bytes_[b] - bytes_[a], ns = ns_[b] - ns_[a];
  const auto note = [&] {
    const double share = std::clamp(ns / forward, 0.0, 1.0);
    if (bytes > points.back().bytes_per_sample && share < points.back().share) points.push_back({bytes, share});
  };
  note();
  for (const Segment& segment : segments_) {
    if (segment.block < a || segment.block >= b) continue;
    bytes += segment.bytes;
    ns -= segment.ns;
    note();
  }
  return points;
}

}  // namespace rannc::partition
