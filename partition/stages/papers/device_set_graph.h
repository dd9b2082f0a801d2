/// Enumerates the device sets that combinations of DAPPLE's three policies can reach (4.2).
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cluster.h"

namespace rannc::partition {

/// A node is a set of devices in use; an edge is a choice of devices for the next stage. Node 0 is the empty set. An
/// edge leaves at least one device free. A group is the devices of a stage: those of an edge, or all that a node leaves
/// free.
class DeviceSetGraph {
 public:
  struct Pick {
    uint32_t group = 0, set = 0;  ///< the chosen devices, and the set in use afterwards
  };

  /// Offers every device count for every stage if that makes at most `most_picks` edges. Otherwise later stages are
  /// restricted to powers of two, whole machines, or all but one or two of the free devices. If that is still too many,
  /// the first stage is restricted too, and finally only Fresh First is used. If `most_picks` is too small even for
  /// that, it is exceeded.
  DeviceSetGraph(const Cluster& cluster, size_t most_picks);

  uint32_t sets() const { return static_cast<uint32_t>(picks_.size()); }
  const std::vector<Pick>& picks(uint32_t set) const { return picks_[set]; }
  size_t all_picks() const { return all_picks_; }
  /// Ascending ids.
  const std::vector<DeviceId>& rest(uint32_t set) const { return rest_[set]; }
  const std::vector<DeviceId>& group(uint32_t group) const { return groups_[group]; }
  uint32_t groups() const { return static_cast<uint32_t>(groups_.size()); }
  bool all_counts() const { return all_counts_; }

 private:
  enum class Offer { kAll, kRoundLater, kRound, kFresh };
  bool build(const Cluster& cluster, Offer offer, size_t most_picks);

  std::vector<std::vector<Pick>> picks_;
  std::vector<std::vector<DeviceId>> rest_, groups_;
  size_t all_picks_ = 0;
  bool all_counts_ = true;
};

/// Returns the slowest link between a device of `a` and a device of `b`. The groups are disjoint and not empty.
Link slowest_link_between(const Cluster& cluster, const std::vector<DeviceId>& a, const std::vector<DeviceId>& b);

}  // namespace rannc::partition
