/// What this machine offers to programs.
#pragma once

#include <cstdint>

namespace rannc::tools {

/// Memory of the machine, or of the control group that holds this process where that is less.
uint64_t machine_memory_bytes();
/// Of that, what nobody uses at present.
uint64_t free_memory_bytes();

/// Cores that this process may run on.
uint32_t machine_cores();

/// What each of `workers` workers on this machine may fill with tensors: three quarters of the memory, divided. A plan
/// counts tensors alone; the rest is for the system, for its cache of the files that are read and written, and for
/// LibTorch itself, which takes some 0.3 GiB a process. The same in every run, whatever else runs.
uint64_t worker_memory_bytes(uint32_t workers);

}  // namespace rannc::tools
