// Counts the connections of a device, and what its allocator keeps.
#include "ir/plan/nccl_memory.h"

#include <algorithm>

#include "ir/plan/device_pairs.h"
#include "ir/plan/plan.h"
#include "ir/program/allocator_blocks.h"

namespace rannc::ir {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kChannels = 4;  // as programs set NCCL_MAX_P2P_NCHANNELS

// Of a connection and channel. The receiver has the buffers of three protocols, of 4 MiB, 512 KiB and 4800 KiB, and the
// sender some flags; where the receiver reads from the sender's memory, that has the 4 MiB. Each is rounded up to 2
// MiB.
struct Ends {
  uint64_t sends, receives;
};
constexpr Ends kWritten{2 * kMiB, 10 * kMiB}, kRead{6 * kMiB, 6 * kMiB};

struct Connections {
  uint64_t sends = 0, receives = 0;
  uint64_t bytes(const Ends& of) const { return kChannels * (sends * of.sends + receives * of.receives); }
};

}  // namespace

std::vector<uint64_t> nccl_buffer_bytes(const Plan& plan) {
  std::vector<Connections> connections(plan.devices.size());
  for (const DevicePairs& pairs : {message_pairs(plan), sum_pairs(plan), pass_sum_pairs(plan)}) {
    for (const auto& [from, to] : pairs) {
      ++connections[from.index()].sends;
      ++connections[to.index()].receives;
    }
  }
  std::vector<uint64_t> most;
  for (const Connections& each : connections) most.push_back(std::max(each.bytes(kWritten), each.bytes(kRead)));
  return most;
}

std::vector<uint64_t> bytes_beside_tensors(const Plan& plan) {
  if (device_type(plan) != DeviceType::kCuda) return std::vector<uint64_t>(plan.devices.size(), 0);
  std::vector<uint64_t> beside = nccl_buffer_bytes(plan);
  for (uint64_t& of_device : beside) of_device += static_cast<uint64_t>(pool_end_bytes(DeviceType::kCuda));
  return beside;
}

}  // namespace rannc::ir
