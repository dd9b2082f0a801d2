#include "partition/cluster.h"

#include <algorithm>
#include <set>

namespace rannc::partition {
namespace {

std::pair<uint32_t, uint32_t> ordered(uint32_t a, uint32_t b) { return {std::min(a, b), std::max(a, b)}; }

Link slower(const Link& a, const Link& b) {
  return {std::min(a.bytes_per_second, b.bytes_per_second), std::max(a.latency_ns, b.latency_ns)};
}

}  // namespace

const Link& Cluster::link(DeviceId a, DeviceId b) const {
  if (!device_links.empty()) {
    const auto found = device_links.find(ordered(a.index(), b.index()));
    if (found != device_links.end()) return found->second;
  }
  const NodeId from = devices[a.index()].node, to = devices[b.index()].node;
  if (from == to) return nodes[from.index()].inside;
  if (!node_links.empty()) {
    const auto found = node_links.find(ordered(from.index(), to.index()));
    if (found != node_links.end()) return found->second;
  }
  return between;
}

Link Cluster::slowest_link(const std::vector<DeviceId>& group) const {
  RANNC_CHECK(group.size() >= 2);
  Link slowest = link(group[0], group[1]);
  if (!device_links.empty()) {
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t j = i + 1; j < group.size(); ++j) slowest = slower(slowest, link(group[i], group[j]));
    }
    return slowest;
  }
  // Devices of a node are alike, so one or two of each node represent all.
  std::vector<DeviceId> sample;
  uint32_t last = UINT32_MAX, seen = 0;
  for (const DeviceId device : group) {
    const uint32_t node = devices[device.index()].node.index();
    seen = node == last ? seen + 1 : 1;
    last = node;
    if (seen <= 2) sample.push_back(device);
  }
  const bool plain = node_links.empty();
  for (size_t i = 0; i + 1 < sample.size(); ++i) {
    const size_t end = plain ? i + 2 : sample.size();
    for (size_t j = i + 1; j < end; ++j) slowest = slower(slowest, link(sample[i], sample[j]));
  }
  return slowest;
}

std::vector<std::string> Cluster::used_kinds() const {
  std::vector<bool> used(kinds.size());
  for (const ClusterDevice& device : devices) used[device.kind] = true;
  std::vector<std::string> names;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (used[i]) names.push_back(kinds[i].name);
  }
  return names;
}

std::vector<ir::InstructionSet> Cluster::instruction_sets() const {
  std::set<ir::InstructionSet> found;
  for (const ClusterDevice& device : devices) found.insert(kinds[device.kind].instructions);
  return {found.begin(), found.end()};
}

bool Cluster::uniform() const {
  for (const ClusterDevice& device : devices) {
    if (device.kind != devices.front().kind) return false;
  }
  if (!device_links.empty() || !node_links.empty()) return false;
  if (nodes.size() == 1) return true;
  for (const ClusterNode& node : nodes) {
    if (node.devices.size() > 1 && !(node.inside == between)) return false;
  }
  return true;
}

Cluster Cluster::first(uint32_t count) const {
  RANNC_CHECK(count >= 1 && count <= size()) << count << " of " << size();
  Cluster part = *this;
  part.devices.resize(count);
  part.nodes.clear();
  for (const ClusterNode& node : nodes) {
    ClusterNode kept{node.name, node.inside, {}};
    for (const DeviceId device : node.devices) {
      if (device.index() < count) kept.devices.push_back(device);
    }
    if (!kept.devices.empty()) part.nodes.push_back(std::move(kept));
  }
  const uint32_t kept_nodes = static_cast<uint32_t>(part.nodes.size());
  std::erase_if(part.node_links, [&](const auto& entry) { return entry.first.second >= kept_nodes; });
  std::erase_if(part.device_links, [&](const auto& entry) { return entry.first.second >= count; });
  return part;
}

double FlopRates::of(ir::DType dtype, Tf32 products) const {
  switch (dtype) {
    case ir::DType::kF16:
      return f16;
    case ir::DType::kBF16:
      return bf16;
    case ir::DType::kF64:
      return f64;
    case ir::DType::kF32:
      return products == Tf32::kAllowed ? tf32 : f32;
    default:
      return f32;
  }
}

Cluster make_cluster(std::string name, DeviceKind kind, uint32_t nodes, uint32_t per_node, Link inside, Link between) {
  Cluster cluster;
  cluster.name = std::move(name);
  cluster.between = between;
  for (uint32_t n = 0; n < nodes; ++n) {
    ClusterNode node{"node" + std::to_string(n), inside, {}};
    for (uint32_t d = 0; d < per_node; ++d) {
      node.devices.push_back(DeviceId::from(cluster.devices.size()));
      cluster.devices.push_back({node.name + "/" + kind.name + ":" + std::to_string(d), 0, NodeId(n)});
    }
    cluster.nodes.push_back(std::move(node));
  }
  cluster.kinds.push_back(std::move(kind));
  return cluster;
}

}  // namespace rannc::partition
