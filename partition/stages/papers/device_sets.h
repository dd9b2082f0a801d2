/// DAPPLE's three ways of picking devices for a stage (4.2).
#pragma once

#include <cstdint>
#include <vector>

#include "partition/cluster.h"

namespace rannc::partition {

enum class DevicePolicy : uint8_t {
  kFreshFirst,    ///< from unused machines, so that a stage stays on one
  kAppendFirst,   ///< from machines that are already in use, which leaves fewer fragments
  kScatterFirst,  ///< equally from all machines in use, or from all when none is: little weight, large activations
};

/// `count` free devices by the policy, ascending; when its machines do not suffice, the others follow in order.
/// `used` has an entry per device. Empty: fewer than `count` are free.
std::vector<DeviceId> pick_devices(const Cluster& cluster, const std::vector<char>& used, uint32_t count,
                                   DevicePolicy policy);

}  // namespace rannc::partition
