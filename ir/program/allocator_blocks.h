/// Memory that LibTorch's allocators take for tensors.
#pragma once

#include <cstdint>

#include "ir/base/device_type.h"

namespace rannc::ir {

/// Bytes of the block that a tensor of `bytes` bytes gets: on a processor `bytes`. On a GPU, whole units of 512 bytes
/// and what is too small to be cut off the segment: up to 1 MiB of those for tensors above 1 MiB. From PyTorch 2.11
/// (`c10/core/AllocatorConfig.h`, `c10/cuda/CUDACachingAllocator.cpp`, by default), for segments with blocks of one
/// size.
int64_t block_bytes(int64_t bytes, DeviceType device);

/// Bytes of segments on a GPU that no block has, an assumption: a last segment of small and one of large blocks, for
/// tensors that last and for those of recordings, which have pools of their own. What lies between blocks of different
/// sizes is not counted. 0 on a processor.
int64_t pool_end_bytes(DeviceType device);

}  // namespace rannc::ir
