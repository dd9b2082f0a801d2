/// Prices messages between two replicated stages and determines which ports they occupy.
#pragma once

#include <vector>

#include "partition/cluster.h"
#include "partition/schedule/simulate.h"

namespace rannc::partition {

/// Combined transfer of all messages from one stage to another.
struct StageWay {
  LinkCost cost;            ///< largest latency; per byte of the whole micro-batch, the time of the busiest port
  std::vector<Hold> holds;  ///< ports of the stages and nodes, each with its share of the time
};

/// Replicas hold their shares of a micro-batch and send directly to the replicas that read them. Keeps a reference to
/// the cluster.
class StageWays {
 public:
  explicit StageWays(const Cluster& cluster);

  /// `samples`: of the micro-batch. Stage s has outgoing port 2s and incoming port 2s + 1. Ports of nodes start at `2 *
  /// stages`.
  StageWay between(StageId from, const std::vector<DeviceId>& senders, StageId to,
                   const std::vector<DeviceId>& receivers, uint64_t samples, size_t stages);

 private:
  void occupy(DeviceId from, DeviceId to, double time);

  const Cluster& cluster_;
  std::vector<double> busy_;  ///< by port (`each_port`); zero between calls
  std::vector<uint32_t> used_;
};

}  // namespace rannc::partition
