/// Reports the memory, cores and instructions of this machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/base/instruction_set.h"

namespace rannc::tools {

/// Bytes of the machine's memory, or the limit of this process's control group where that is less.
uint64_t machine_memory_bytes();
/// Bytes of that memory that are currently free.
uint64_t free_memory_bytes();

/// The instruction set for which oneDNN chooses its kernels in this process: that of the processor, or the limit in
/// `ONEDNN_MAX_CPU_ISA` if that is less. The default of device descriptions where the processor is not of type x86-64.
ir::InstructionSet machine_instructions();
/// The lesser of `best` and a limit as `ONEDNN_MAX_CPU_ISA` states it, such as `AVX2_VNNI`. An unknown one limits
/// nothing, as in oneDNN.
ir::InstructionSet limited_instructions(ir::InstructionSet best, std::string_view limit);

/// Number of cores that this process may run on.
uint32_t machine_cores();

/// Bytes that each of `workers` workers on this machine may use for tensors: an equal share of three quarters of the
/// memory. A plan counts only tensors. The rest is for the system, its file cache and LibTorch itself, which takes
/// about 0.3 GiB per process. The result does not depend on what else is running.
uint64_t worker_memory_bytes(uint32_t workers);

}  // namespace rannc::tools
