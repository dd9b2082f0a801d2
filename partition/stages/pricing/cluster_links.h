/// Messages of a schedule on the links and ports of a cluster.
#pragma once

#include <vector>

#include "partition/cluster.h"
#include "partition/schedule/simulate.h"

namespace rannc::partition {

/// Beyond so many actions messages do not wait for each other: their queues would take too long.
inline constexpr size_t kContendedActions = 2'000'000;

/// Prices every message by the link it takes and the ports it holds; device d of the schedule is `in_cluster[d]`. All
/// who simulate a plan device by device do it with these. Keeps a reference to the cluster.
void use_links(ScheduleCosts& costs, const Cluster& cluster, std::vector<DeviceId> in_cluster);

/// Whether messages wait for their ports when the rows are simulated.
bool contended(const ir::Schedule& schedule);

}  // namespace rannc::partition
