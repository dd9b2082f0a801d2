/// Reports the memory and cores of this machine.
#pragma once

#include <cstdint>

namespace rannc::tools {

/// Bytes of the machine's memory, or the limit of this process's control group where that is less.
uint64_t machine_memory_bytes();
/// Bytes of that memory that are currently free.
uint64_t free_memory_bytes();

/// Number of cores that this process may run on.
uint32_t machine_cores();

/// Bytes that each of `workers` workers on this machine may use for tensors: an equal share of three quarters of the
/// memory. A plan counts only tensors. The rest is for the system, its file cache and LibTorch itself, which takes
/// about 0.3 GiB per process. The result does not depend on what else is running.
uint64_t worker_memory_bytes(uint32_t workers);

}  // namespace rannc::tools
