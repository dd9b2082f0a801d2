/// Describes the devices, nodes and links that a plan targets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"

namespace rannc::partition {

/// Capabilities of one kind of device. Rates are *achieved* rates, not the vendor's peak.
struct DeviceKind {
  std::string name;             ///< `v100`, `cpu` …
  uint64_t memory_bytes = 0;    ///< usable for training
  double flops_per_second = 0;  ///< > 0
  double bytes_per_second = 0;  ///< device memory, > 0
  double launch_ns = 0;         ///< constant cost of starting one task, >= 0
  ir::DeviceType type = ir::DeviceType::kCpu;
  bool operator==(const DeviceKind&) const = default;
};

/// An undirected connection. Concurrent transfers share its bandwidth.
struct Link {
  double bytes_per_second = 0;  ///< > 0
  double latency_ns = 0;        ///< >= 0
  /// Time to move `bytes` in one message, ns; 0 bytes cost nothing, not even latency.
  double transfer_ns(double bytes) const { return bytes > 0 ? latency_ns + bytes * 1e9 / bytes_per_second : 0; }
  bool operator==(const Link&) const = default;
};

struct ClusterDevice {
  std::string name;   ///< `node0/v1000`
  uint32_t kind = 0;  ///< index into `Cluster::kinds`
  NodeId node;
  bool operator==(const ClusterDevice&) const = default;
};

struct ClusterNode {
  std::string name;
  Link inside;                    ///< between two devices of the node
  std::vector<DeviceId> devices;  ///< ascending, at least one
  bool operator==(const ClusterNode&) const = default;
};

/// Devices are numbered node by node, nodes in the order of the file.
struct Cluster {
  std::string name;
  std::vector<DeviceKind> kinds;
  std::vector<ClusterDevice> devices;
  std::vector<ClusterNode> nodes;
  Link between;                                                ///< between two nodes without an entry in `node_links`
  std::map<std::pair<uint32_t, uint32_t>, Link> node_links;    ///< unequal links, smaller node first
  std::map<std::pair<uint32_t, uint32_t>, Link> device_links;  ///< unequal links, smaller device first; take precedence

  uint32_t size() const { return static_cast<uint32_t>(devices.size()); }
  const DeviceKind& kind_of(DeviceId device) const { return kinds[devices[device.index()].kind]; }
  /// The link between two different devices.
  const Link& link(DeviceId a, DeviceId b) const;
  /// Returns the least bandwidth and the largest latency over all pairs of `group` (ids ascending, at least two
  /// devices).
  Link slowest_link(const std::vector<DeviceId>& group) const;
  /// Whether all devices are of one kind and all pairs have equal links.
  bool uniform() const;
  /// Returns the first `count` devices with their nodes and links; 1 <= `count` <= `size()`.
  Cluster first(uint32_t count) const;
  bool operator==(const Cluster&) const = default;
};

/// Reads a cluster from TOML text. `file` is used in messages. `partition/cluster-files.md` describes the format.
/// Unknown keys, values out of range and more than 2^20 devices are located errors.
Result<Cluster> parse_cluster(std::string_view text, const std::string& file);

/// Reads a cluster file.
Result<Cluster> read_cluster(const std::string& path);

/// Returns TOML text that `parse_cluster` reads back as an equal cluster.
std::string print_cluster(const Cluster& cluster);

/// Returns a built-in cluster: `dapple-a`, `dapple-b`, `dapple-c` (DAPPLE, Table 2), `rannc-1x8`, `rannc-4x8` (RaNNC
/// IV.A), `local:N` (N equal CPU workers of this machine), `flat:N` (N V100-32GB one hop apart). An unknown name is an
/// error that lists the known ones.
Result<Cluster> preset_cluster(std::string_view name);
/// Names of the presets; `N` stands for a count.
const std::vector<std::string>& preset_cluster_names();

/// Builds a cluster of `nodes` equal nodes with `per_node` devices of `kind` each.
Cluster make_cluster(std::string name, DeviceKind kind, uint32_t nodes, uint32_t per_node, Link inside, Link between);

}  // namespace rannc::partition
