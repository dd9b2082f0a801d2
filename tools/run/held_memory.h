/// Compares the measured peak memory of a run's processes with the plan's prediction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"

namespace rannc::tools {

/// Peak memory of one process. A worker process holds one device; a run with threads holds all of them.
struct HeldMemory {
  uint32_t first_device = 0, devices = 1;
  uint64_t peak_bytes = 0;  ///< from the second step on; of a data set, only what a step reads
  bool operator==(const HeldMemory&) const = default;
};

/// Sum of the predicted peaks of the process's devices, of what LibTorch counts as allocated
/// (`ir::bytes_beside_tensors`). For several devices it is an upper bound, since their peaks need not coincide.
uint64_t predicted_bytes(const ir::Plan& plan, const HeldMemory& held);

/// Bytes of a mini-batch's samples, labels included, that the stages on these devices read.
uint64_t sample_bytes(const ir::Plan& plan, uint32_t first_device, uint32_t devices);

/// «device 1 held 10 bytes at most, 11 were predicted»
std::string describe(const ir::Plan& plan, const HeldMemory& held);

/// Returns the report's table: a row per device, with the measured peak of each process. Processes without a
/// measurement are omitted.
std::string memory_table(const ir::Plan& plan, const std::vector<HeldMemory>& held);

/// A sentence about NCCL's buffers, which no measured peak counts, for the report.
std::string nccl_memory_text(const ir::Plan& plan);
/// Why the predicted peak of a device and NCCL's buffers do not fit into its memory; empty if they do, or if the
/// memory is unknown (0).
std::string nccl_memory_warning(const ir::Plan& plan, DeviceId device, uint64_t memory_bytes);

/// Returns the line that a worker passes to worker 0; empty if nothing was measured.
std::string print_held(const std::optional<HeldMemory>& held);
Result<std::optional<HeldMemory>> parse_held(const std::string& text, const std::string& path);

}  // namespace rannc::tools
