#include "partition/stages/pricing/cluster_links.h"

#include "partition/transfers.h"

namespace rannc::partition {

void use_links(ScheduleCosts& costs, const Cluster& cluster, std::vector<DeviceId> in_cluster) {
  costs.link = [in_cluster, &cluster](DeviceId from, DeviceId to) {
    const Link& link = cluster.link(in_cluster[from.index()], in_cluster[to.index()]);
    return LinkCost{link.latency_ns, 1e9 / link.bytes_per_second};
  };
  costs.resources = [in_cluster, &cluster](DeviceId from, DeviceId to) {
    std::vector<Hold> used;
    each_port(cluster, in_cluster[from.index()], in_cluster[to.index()],
              [&](uint32_t port) { used.push_back({port}); });
    return used;
  };
}

bool contended(const ir::Schedule& schedule) {
  size_t actions = 0;
  for (const auto& row : schedule.rows) actions += row.size();
  return actions <= kContendedActions;
}

}  // namespace rannc::partition
