#include "partition/placement/place.h"

#include <algorithm>
#include <numeric>

namespace rannc::partition {
namespace {

constexpr size_t kExchangeLimit = 64;  ///< largest number of devices for which exchanges are tried

/// Calls `visit(from, to, share)` for each pair of replicas that share samples; the shares sum to 1.
template <class Visit>
void each_message(const std::vector<DeviceId>& from, const std::vector<DeviceId>& to, const Visit& visit) {
  const size_t n = from.size(), m = to.size();
  size_t at = 0;  // in units of 1 / (n m)
  for (size_t i = 0, j = 0; i < n && j < m;) {
    const size_t left = (i + 1) * m, right = (j + 1) * n, end = std::min(left, right);
    visit(from[i], to[j], static_cast<double>(end - at) / static_cast<double>(n * m));
    at = end;
    i += end == left;
    j += end == right;
  }
}

StageDevices consecutive(const std::vector<uint32_t>& replicas) {
  StageDevices devices(replicas.size());
  uint32_t next = 0;
  for (size_t s = 0; s < replicas.size(); ++s) {
    for (uint32_t r = 0; r < replicas[s]; ++r) devices[s].push_back(DeviceId(next++));
  }
  return devices;
}

/// Places as many copies of the pipeline as the counts allow, each on consecutive devices.
StageDevices copied(const std::vector<uint32_t>& replicas) {
  uint32_t copies = 0;
  for (const uint32_t count : replicas) copies = std::gcd(copies, count);
  StageDevices devices(replicas.size());
  uint32_t next = 0;
  for (uint32_t copy = 0; copy < copies; ++copy) {
    for (size_t s = 0; s < replicas.size(); ++s) {
      for (uint32_t r = 0; r < replicas[s] / copies; ++r) devices[s].push_back(DeviceId(next++));
    }
  }
  return devices;
}

}  // namespace

double placement_cost(const Cluster& cluster, const PlacementTraffic& traffic, const StageDevices& devices) {
  double total = 0;
  for (const auto& edge : traffic.edges) {
    each_message(devices[edge.from], devices[edge.to], [&](DeviceId from, DeviceId to, double share) {
      total += cluster.link(from, to).transfer_ns(edge.bytes * share);
    });
  }
  for (size_t s = 0; s < devices.size(); ++s) {
    if (devices[s].size() < 2) continue;
    std::vector<DeviceId> ascending = devices[s];
    std::sort(ascending.begin(), ascending.end());
    const double n = static_cast<double>(ascending.size());
    total += 2 * (n - 1) * cluster.slowest_link(ascending).transfer_ns(traffic.gradient_bytes[s] / n);
  }
  return total;
}

double bytes_between_nodes(const Cluster& cluster, const PlacementTraffic& traffic, const StageDevices& devices) {
  const auto node = [&](DeviceId device) { return cluster.devices[device.index()].node; };
  double total = 0;
  for (const auto& edge : traffic.edges) {
    each_message(devices[edge.from], devices[edge.to], [&](DeviceId from, DeviceId to, double share) {
      if (node(from) != node(to)) total += edge.bytes * share;
    });
  }
  for (size_t s = 0; s < devices.size(); ++s) {
    std::vector<uint32_t> nodes;
    for (const DeviceId device : devices[s]) nodes.push_back(node(device).index());
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    // A ring in node order leaves each node once. Each of its links carries 2 (n - 1) / n bytes.
    const double n = static_cast<double>(devices[s].size());
    if (nodes.size() > 1) total += static_cast<double>(nodes.size()) * 2 * (n - 1) / n * traffic.gradient_bytes[s];
  }
  return total;
}

StageDevices improve_placement(const Cluster& cluster, const PlacementTraffic& traffic, StageDevices devices) {
  if (cluster.uniform() || cluster.size() > kExchangeLimit) return devices;
  std::vector<DeviceId*> slots;
  std::vector<char> used(cluster.size(), 0);
  for (auto& stage : devices) {
    for (DeviceId& device : stage) {
      slots.push_back(&device);
      used[device.index()] = 1;
    }
  }
  std::vector<DeviceId> idle;
  for (uint32_t d = 0; d < cluster.size(); ++d) {
    if (!used[d]) idle.push_back(DeviceId(d));
  }
  for (DeviceId& device : idle) slots.push_back(&device);
  double cost = placement_cost(cluster, traffic, devices);
  for (bool better = true; better;) {
    better = false;
    for (size_t i = 0; i < slots.size(); ++i) {
      for (size_t j = i + 1; j < slots.size(); ++j) {
        const ClusterDevice &a = cluster.devices[slots[i]->index()], &b = cluster.devices[slots[j]->index()];
        if (a.kind != b.kind) continue;
        std::swap(*slots[i], *slots[j]);
        const double other = placement_cost(cluster, traffic, devices);
        if (other < cost * (1 - 1e-12)) {
          cost = other;
          better = true;
        } else {
          std::swap(*slots[i], *slots[j]);
        }
      }
    }
  }
  return devices;
}

StageDevices place(const Cluster& cluster, const PlacementTraffic& traffic, const std::vector<uint32_t>& replicas) {
  RANNC_CHECK(std::accumulate(replicas.begin(), replicas.end(), uint64_t{0}) <= cluster.size());
  StageDevices first = improve_placement(cluster, traffic, consecutive(replicas));
  StageDevices second = improve_placement(cluster, traffic, copied(replicas));
  return placement_cost(cluster, traffic, second) < placement_cost(cluster, traffic, first) ? second : first;
}

}  // namespace rannc::partition
