/// Prices communication and optimizers for planners and simulators.
#pragma once

#include <cstdint>

#include "partition/cluster.h"

namespace rannc::partition {

/// Time of a ring all-reduce over `replicas` >= 2 devices, ns: 2 (n - 1) steps, each an n-th of the bytes over the
/// slowest link.
inline double ring_ns(double bytes, double replicas, const Link& link) {
  return 2 * (replicas - 1) * (link.latency_ns + bytes / replicas * 1e9 / link.bytes_per_second);
}

/// Time of the optimizer step, ns: reads the gradients, reads and writes parameters and state. The products of Muon are
/// left out: only measured plans have their time.
inline double optimizer_pass_ns(double parameter_bytes, double gradient_bytes, double state_bytes,
                                double bytes_per_second) {
  return (gradient_bytes + 2 * (parameter_bytes + state_bytes)) * 1e9 / bytes_per_second;
}

/// Number of ports. Ports are numbered densely: two per device, then two per node, outgoing before incoming.
inline uint32_t port_count(const Cluster& cluster) {
  return 2 * (cluster.size() + static_cast<uint32_t>(cluster.nodes.size()));
}

/// Calls `visit(port)` for each port that a message occupies: the sender's outgoing port, the receiver's incoming port
/// and, between nodes, the ports of the nodes.
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
