/// Memory of GPUs beside the blocks of tensors.
#pragma once

#include <cstdint>
#include <vector>

namespace rannc::ir {

struct Plan;

/// Most bytes of NCCL's buffers on each device of a plan, for the connections that `runtime::join_nccl` makes, with
/// `NCCL_MAX_P2P_NCHANNELS=4`. LibTorch's allocator does not count them. From NCCL 2.28 (`src/transport/p2p.cc`), for
/// GPUs that reach each other's memory; unmeasured. Small allocations of each communicator are not counted.
std::vector<uint64_t> nccl_buffer_bytes(const Plan& plan);

/// The part of each device's predicted peak that LibTorch does not count as allocated: NCCL's buffers and the ends of
/// the allocator's pools (`pool_end_bytes`). 0 in a plan for processors.
std::vector<uint64_t> bytes_beside_tensors(const Plan& plan);

}  // namespace rannc::ir
