// The rules by which LibTorch's allocator for GPUs cuts segments into blocks.
#include "ir/program/allocator_blocks.h"

namespace rannc::ir {

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kUnit = 512;                ///< `kMinBlockSize`
constexpr int64_t kSmall = kMiB;              ///< `kSmallSize`: the largest block of small segments
constexpr int64_t kSmallSegment = 2 * kMiB;   ///< `kSmallBuffer`
constexpr int64_t kLargeSegment = 20 * kMiB;  ///< `kLargeBuffer`, of blocks below `kOwnSegment`
constexpr int64_t kOwnSegment = 10 * kMiB;    ///< `kMinLargeAlloc`: from here on, a segment is made for a block
constexpr int64_t kRounding = 2 * kMiB;       ///< `kRoundLarge`, of such segments
constexpr int64_t kPools = 2;

int64_t rounded_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

int64_t block_bytes(int64_t bytes, DeviceType device) {
  if (device != DeviceType::kCuda || bytes <= 0) return bytes;
  const int64_t block = rounded_up(bytes, kUnit);
  if (block <= kSmall) return block;
  const int64_t blocks = block < kOwnSegment ? kLargeSegment / block : 1;
  const int64_t rest = (block < kOwnSegment ? kLargeSegment : rounded_up(block, kRounding)) - blocks * block;
  return rest > kSmall ? block : block + rest / blocks;  // a larger rest is a block of its own
}

int64_t pool_end_bytes(DeviceType device) {
  return device == DeviceType::kCuda ? kPools * (kSmallSegment + kLargeSegment) : 0;
}

}  // namespace rannc::ir
