/// What messages between two replicated stages cost, and which ports they hold for how long.
#pragma once

#include <vector>

#include "partition/cluster.h"
#include "partition/schedule/simulate.h"

namespace rannc::partition {

/// The way of all messages from one stage to another, as if they were one.
struct StageWay {
  LinkCost cost;            ///< the largest latency; per byte of the whole micro-batch the time of the busiest port
  std::vector<Hold> holds;  ///< ports of the stages and nodes, each for as long as its own part takes
};

/// Replicas hold their shares of a micro-batch and send to whoever reads them, directly. Keeps a reference to the
/// cluster.
class StageWays {
 public:
  explicit StageWays(const Cluster& cluster);

  /// `samples`: of the micro-batch. Stage s has port 2s out and 2s + 1 in; those of nodes follow from `2 * stages` on.
  StageWay between(StageId from, const std::vector<DeviceId>& senders, StageId to,
                   const std::vector<DeviceId>& receivers, uint64_t samples, size_t stages);

 private:
  void occupy(DeviceId from, DeviceId to, double time);

  const Cluster& cluster_;
  std::vector<double> busy_;  ///< by port (`each_port`); zero between calls
  std::vector<uint32_t> used_;
};

}  // namespace rannc::partition
