/// What the tensors of a run's processes took at most, beside what its plan predicts for their devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"

namespace rannc::tools {

/// Of one process: a worker holds one device, a run of threads all of them.
struct HeldMemory {
  uint32_t first_device = 0, devices = 1;
  uint64_t peak_bytes = 0;  ///< from the second step on; of a data set's tensors only what a step reads
  bool operator==(const HeldMemory&) const = default;
};

/// The sum over the process's devices. It bounds what a process with several of them holds: their peaks need not come
/// at the same time.
uint64_t predicted_bytes(const ir::Plan& plan, const HeldMemory& held);

/// Of a mini-batch's samples, labels included, what stages on these devices read.
uint64_t sample_bytes(const ir::Plan& plan, uint32_t first_device, uint32_t devices);

/// «device 1 held 10 bytes at most, 11 were predicted»
std::string describe(const ir::Plan& plan, const HeldMemory& held);

/// The table of the report: a row for each device, and what each process held. Processes that measured nothing are
/// left out.
std::string memory_table(const ir::Plan& plan, const std::vector<HeldMemory>& held);

/// As a line that workers leave to the first of them; empty where nothing was measured.
std::string print_held(const std::optional<HeldMemory>& held);
Result<std::optional<HeldMemory>> parse_held(const std::string& text, const std::string& path);

}  // namespace rannc::tools
