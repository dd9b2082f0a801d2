/// Holds measured times of whole stages.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

namespace rannc::partition {

/// The blocks [first, end) as one stage.
struct StageRun {
  uint32_t first = 0, end = 0;
  uint32_t kind = 0;             ///< of its devices, in `Cluster::kinds`
  uint64_t samples = 0;          ///< that a replica computes at once
  bool recompute = false;        ///< whether an R follows its F
  bool splits_backward = false;  ///< whether I and W run apart
  auto operator<=>(const StageRun&) const = default;
};

/// Times of its passes, ns.
struct StageRunTimes {
  double forward_ns = 0;
  double backward_ns = 0;
  double weight_ns = 0;  ///< part of `backward_ns` of W; unknown unless I and W run apart
  bool operator==(const StageRunTimes&) const = default;
};

using MeasuredStages = std::map<StageRun, StageRunTimes>;

}  // namespace rannc::partition
