/// Describes the devices, nodes and links that a plan targets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/device_type.h"
#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"
#include "ir/base/instruction_set.h"
#include "ir/graph/type.h"

namespace rannc::partition {

/// Whether products of f32 may be rounded to TF32, which tensor cores multiply faster.
enum class Tf32 : uint8_t { kNever, kAllowed };

/// Achieved floating-point operations per second by element type, each > 0. Those of 16-bit types and of TF32 are rates
/// of products: other tasks are limited by memory.
struct FlopRates {
  FlopRates() = default;
  /// One rate for all types.
  FlopRates(double rate) : f32(rate), tf32(rate), bf16(rate), f16(rate), f64(rate) {}

  double f32 = 0, tf32 = 0, bf16 = 0, f16 = 0, f64 = 0;

  /// The rate of tasks on `dtype`; integers have that of f32.
  double of(ir::DType dtype, Tf32 products = Tf32::kNever) const;
  /// Whether all types have one rate.
  bool uniform() const { return *this == FlopRates(f32); }
  bool operator==(const FlopRates&) const = default;
};

/// Achieved rates of kernels that reach neither the rates of products nor the bandwidth of their device. Default: all
/// do.
struct KernelRates {
  std::optional<FlopRates> convolution;
  std::optional<FlopRates> attention;  ///< fused; its backward pass makes five products where the forward makes two
  std::optional<FlopRates> flash_attention;  ///< the same by flash kernels; nothing: the device has none
  double batch_norm = 0;  ///< elements per second that are read and written; 0: the bandwidth alone limits
  double batch_norm_channels_last = 0;  ///< the same where channels lie last in memory
  uint32_t multiprocessors = 0;         ///< that compute the tiles of products, see `analytic_costs`; 0: not modelled
  bool operator==(const KernelRates&) const = default;
};

/// Capabilities of one kind of device. Rates are *achieved* rates, not the vendor's peak.
struct DeviceKind {
  std::string name;           ///< `v100`, `cpu` …
  uint64_t memory_bytes = 0;  ///< usable for training
  FlopRates flops_per_second;
  double bytes_per_second = 0;  ///< device memory, > 0
  double launch_ns = 0;         ///< constant cost of starting one task, >= 0
  ir::DeviceType type = ir::DeviceType::kCpu;
  ir::InstructionSet instructions =
      ir::kDefaultInstructions;  ///< of a processor; the memory of convolutions depends on it
  KernelRates kernels = {};
  uint64_t workspace_bytes = 0;  ///< that libraries hold while a stage is trained, as cuBLAS does
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
  /// Names of the kinds that devices have, in the order of `kinds`.
  std::vector<std::string> used_kinds() const;
  /// Instruction sets of the devices, each once, ascending.
  std::vector<ir::InstructionSet> instruction_sets() const;
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

/// Returns a built-in cluster: `dapple-a`, `dapple-b`, `dapple-c` (DAPPLE, Table 2), `dapple-a-4x8` (6.6), `rannc-1x8`,
/// `rannc-4x8` (RaNNC IV.A), `torchgpipe-8` (section 4), `local:N` (N equal CPU workers of this machine), `flat:N` (N
/// V100-32GB one hop apart), `KIND-N` (a node of N NVIDIA GPUs, up to 8), `Mx-KIND-N` (M such nodes). An unknown name
/// is an error that lists the known ones.
Result<Cluster> preset_cluster(std::string_view name);
/// Returns a node of `count` GPUs of the preset whose name a device's own name holds (`NVIDIA H200`), with
/// `memory_bytes` each, of which 2 GiB are for CUDA and its libraries. The error for an unknown one lists the known.
Result<Cluster> cluster_of_gpus(std::string_view model, uint64_t memory_bytes, uint32_t count);
/// Names of the presets; `N` and `M` stand for counts, and `KIND` for a kind of another name.
const std::vector<std::string>& preset_cluster_names();

/// Builds a cluster of `nodes` equal nodes with `per_node` devices of `kind` each.
Cluster make_cluster(std::string name, DeviceKind kind, uint32_t nodes, uint32_t per_node, Link inside, Link between);

}  // namespace rannc::partition
