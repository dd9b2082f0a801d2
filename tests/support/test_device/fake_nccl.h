/// NCCL between the threads of one process, over the test devices.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "runtime/device/nccl_table.h"

namespace rannc::testing {

/// Messages between communicators of this process, in any threads. The messages of a group are one kernel of a device,
/// which is pending work of its stream from its turn on the stream until every message in it has both ends running. As
/// NCCL does, it
/// - refuses a communicator whose last call is still in progress, and reports that a few times;
/// - keeps a communicator in progress until all ranks have made it;
/// - keeps both ranks of a pair in progress until their first message has both ends;
/// - ends the messages of a communicator, but not those of its peers, at an abort.
/// Other than NCCL, it reports an error to both ends if their sizes differ. It buffers nothing: NCCL may complete a
/// small send before its receive runs.
const runtime::NcclTable& fake_nccl();

/// Makes all communicators of this process report an error that no call has caused, as NCCL does for a lost network.
/// Their messages stay pending.
void fail_fake_nccl(const std::string& detail);

/// How a device runs kernels.
struct FakeNcclLimits {
  /// Kernels of a device that run at a time. Others wait for one to end.
  size_t resident = std::numeric_limits<size_t>::max();
  /// Kernels of a device start in the order of the host's calls, as with `NCCL_LAUNCH_ORDER_IMPLICIT=1`. Otherwise one
  /// may start before an earlier one of another stream.
  bool launch_order = true;
};
/// For kernels that are enqueued from now on. Any thread; no kernel may be waiting.
void limit_fake_nccl(const FakeNcclLimits& limits);

}  // namespace rannc::testing
