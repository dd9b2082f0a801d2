/// What communication and the optimizer cost, for all who price plans.
#pragma once

#include <cstdint>

#include "partition/cluster.h"

namespace rannc::partition {

/// Ring all-reduce over `replicas` >= 2 devices: 2 (n - 1) steps of an n-th of the bytes over the slowest link, ns.
inline double ring_ns(double bytes, double replicas, const Link& link) {
  return 2 * (replicas - 1) * (link.latency_ns + bytes / replicas * 1e9 / link.bytes_per_second);
}

/// The optimizer's pass over parameters, ns: reads the gradient, reads and writes parameters and `states` as large
/// each.
inline double optimizer_pass_ns(double parameter_bytes, double gradient_bytes, double states, double bytes_per_second) {
  return (gradient_bytes + parameter_bytes * (2 + 2 * states)) * 1e9 / bytes_per_second;
}

/// Ports are numbered densely: two per device, then two per node, the way out before the way in.
inline uint32_t port_count(const Cluster& cluster) {
  return 2 * (cluster.size() + static_cast<uint32_t>(cluster.nodes.size()));
}

/// Calls `visit(port)` for what a message occupies: the sender's way out, the receiver's way in, and between nodes
/// those of the nodes.
template <class Visit>
void each_port(const Cluster& cluster, DeviceId from, DeviceId to, Visit&& visit) {
  visit(2 * from.index());
  visit(2 * to.index() + 1);
  const NodeId here = cluster.devices[from.index()].node, there = cluster.devices[to.index()].node;
  if (here == there) return;
  visit(2 * (cluster.size() + here.index()));
  visit(2 * (cluster.size() + there.index()) + 1);
}

}  // namespace rannc::partition
