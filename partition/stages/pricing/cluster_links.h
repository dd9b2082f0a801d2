/// Prices a schedule's messages on the links and ports of a cluster.
#pragma once

#include <vector>

#include "partition/cluster.h"
#include "partition/schedule/simulate.h"

namespace rannc::partition {

/// Above this number of actions messages do not wait for each other, because simulating their queues would take too
/// long.
inline constexpr size_t kContendedActions = 2'000'000;

/// Prices every message by its link and the ports that it occupies. Device d of the schedule is `in_cluster[d]`. Used
/// by all device-by-device simulations of a plan. Keeps a reference to the cluster.
void use_links(ScheduleCosts& costs, const Cluster& cluster, std::vector<DeviceId> in_cluster);

/// Whether messages wait for their ports in a simulation of this schedule.
bool contended(const ir::Schedule& schedule);

}  // namespace rannc::partition
