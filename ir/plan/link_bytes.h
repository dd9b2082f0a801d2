/// Bytes that a plan sends over each link.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "ir/plan/plan.h"

namespace rannc::ir {

/// From one device to another.
using Link = std::pair<DeviceId, DeviceId>;

/// Bytes of the messages that a training step sends over each link that has any. Requires a lowered schedule. Sums over
/// devices are not counted.
std::map<Link, uint64_t> link_bytes(const Plan& plan);

}  // namespace rannc::ir
