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

uint64_t nccl_buffer_bytes(const Plan& plan, DeviceId device) {
  Connections all;
  for (const DevicePairs& pairs : {message_pairs(plan), sum_pairs(plan), pass_sum_pairs(plan)}) {
    for (const auto& [from, to] : pairs) {
      all.sends += from == device ? 1 : 0;
      all.receives += to == device ? 1 : 0;
    }
  }
  return std::max(all.bytes(kWritten), all.bytes(kRead));
}

uint64_t bytes_beside_tensors(const Plan& plan, DeviceId device) {
  if (device_type(plan) != DeviceType::kCuda) return 0;
  return nccl_buffer_bytes(plan, device) + static_cast<uint64_t>(pool_end_bytes(DeviceType::kCuda));
}

}  // namespace rannc::ir
