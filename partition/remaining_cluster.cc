#include "partition/remaining_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace rannc::partition {
namespace {

/// Renumbers the ends of links. Drops links of what is gone.
template <class Numbers>
std::map<std::pair<uint32_t, uint32_t>, Link> renumbered(const std::map<std::pair<uint32_t, uint32_t>, Link>& links,
                                                         const Numbers& now) {
  std::map<std::pair<uint32_t, uint32_t>, Link> found;
  for (const auto& [ends, link] : links) {
    const auto first = now(ends.first), second = now(ends.second);
    if (first && second) found.emplace(std::pair(*first, *second), link);
  }
  return found;
}

}  // namespace

RemainingCluster without(const Cluster& cluster, const std::vector<DeviceId>& lost) {
  RANNC_CHECK(lost.size() < cluster.size()) << lost.size() << " lost devices of " << cluster.size();
  RemainingCluster rest{cluster, std::vector<DeviceId>(cluster.size())};
  Cluster& left = rest.cluster;
  left.devices.clear();
  left.nodes.clear();
  std::vector<std::optional<uint32_t>> nodes(cluster.nodes.size());
  for (size_t n = 0; n < cluster.nodes.size(); ++n) {
    ClusterNode node{cluster.nodes[n].name, cluster.nodes[n].inside, {}};
    for (const DeviceId device : cluster.nodes[n].devices) {
      if (std::find(lost.begin(), lost.end(), device) != lost.end()) continue;
      rest.now[device.index()] = DeviceId::from(left.devices.size());
      node.devices.push_back(rest.now[device.index()]);
      left.devices.push_back(cluster.devices[device.index()]);
      left.devices.back().node = NodeId::from(left.nodes.size());
    }
    if (node.devices.empty()) continue;
    nodes[n] = static_cast<uint32_t>(left.nodes.size());
    left.nodes.push_back(std::move(node));
  }
  left.node_links = renumbered(cluster.node_links, [&](uint32_t node) { return nodes[node]; });
  left.device_links = renumbered(cluster.device_links, [&](uint32_t device) -> std::optional<uint32_t> {
    const DeviceId now = rest.now[device];
    return now.valid() ? std::optional(static_cast<uint32_t>(now.index())) : std::nullopt;
  });
  return rest;
}

}  // namespace rannc::partition
