/// Implements DAPPLE's three policies for choosing the devices of a stage (4.2).
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cluster.h"

namespace rannc::partition {

enum class DevicePolicy : uint8_t {
  kFreshFirst,    ///< from unused machines, so that a stage stays within one
  kAppendFirst,   ///< from machines in use, which leaves fewer fragments
  kScatterFirst,  ///< equally from all machines in use, or from all if none is: few weights, large activations
};

/// Returns `count` free devices chosen by the policy, ascending. If its machines do not suffice, the others follow in
/// order. `used` has an entry per device. Empty if fewer than `count` are free.
std::vector<DeviceId> pick_devices(const Cluster& cluster, const std::vector<char>& used, uint32_t count,
                                   DevicePolicy policy);

}  // namespace rannc::partition
