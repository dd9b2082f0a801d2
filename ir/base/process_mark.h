/// Names of processes that no other process has, on any host.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace rannc {

/// Returns `<system>-<process>-<start>` for a process that this one can see: a hash of the running kernel and the
/// process namespace, the number, and the start time in ticks after the boot of the kernel. Empty if there is none.
std::string process_mark(pid_t process);

enum class ProcessState {
  kRuns,
  kGone,
  kUnknown,  ///< it belongs to another host, boot or container, or this is no mark
};

/// Whether the process with this mark still runs.
ProcessState state_of(std::string_view mark);

}  // namespace rannc
