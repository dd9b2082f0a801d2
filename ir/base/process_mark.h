/// Names of processes that no other process has, on any host.
#pragma once

#include <string>
#include <string_view>

namespace rannc {

/// Returns `<system>-<process>-<start>` for this process: a hash of the running kernel and the process namespace, the
/// number, and the start time in ticks after the boot of the kernel.
std::string process_mark();

enum class ProcessState {
  kRuns,
  kGone,
  kUnknown,  ///< it belongs to another host, boot or container, is hidden, or this is no mark
};

/// Whether the process with this mark still runs.
ProcessState state_of(std::string_view mark);

}  // namespace rannc
