/// Which devices of a plan exchange data.
#pragma once

#include <utility>
#include <vector>

#include "ir/base/ids.h"

namespace rannc::ir {

struct Plan;

using DevicePairs = std::vector<std::pair<DeviceId, DeviceId>>;

/// Returns the ordered pairs of a plan's messages.
DevicePairs message_pairs(const Plan& plan);
/// Returns the ordered pairs of devices whose gradients or shares are summed or gathered together.
DevicePairs sum_pairs(const Plan& plan);
/// Returns the ordered pairs of replicas that exchange sums within passes.
DevicePairs pass_sum_pairs(const Plan& plan);

}  // namespace rannc::ir
